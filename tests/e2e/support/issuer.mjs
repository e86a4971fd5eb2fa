// An issuer at which people sign in (OpenID Connect): a page asks whether to go on.

import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { listen } from './setup.mjs';

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const encoded = (part) => Buffer.from(JSON.stringify(part)).toString('base64url');

function token(claims) {
  const text = `${encoded({ alg: 'EdDSA', kid: 'k1', typ: 'JWT' })}.${encoded(claims)}`;
  return `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`;
}

/** Everybody who goes on is Ann, with the rights in `scope`. `settings` name it `corp`. */
export async function startIssuer() {
  const nonces = new Map();
  const issuer = { scope: 'read run' };
  const back = (query, more) => `${query.get('redirect_uri')}?${new URLSearchParams({ state: query.get('state'), ...more })}`;
  const answers = {
    '/.well-known/openid-configuration': () => ({
      issuer: issuer.url, jwks_uri: `${issuer.url}/jwks`, authorization_endpoint: `${issuer.url}/authorize`, token_endpoint: `${issuer.url}/token`,
    }),
    '/jwks': () => ({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig', alg: 'EdDSA' }] }),
    '/token': (form) => ({
      scope: issuer.scope,
      id_token: token({ iss: issuer.url, sub: 'ann', aud: 'console', exp: Date.now() / 1000 + 60, nonce: nonces.get(form.get('code')) }),
    }),
  };
  const { url } = await listen(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const { pathname, searchParams } = new URL(request.url, 'http://issuer');
    if (pathname === '/authorize') {
      const code = randomUUID();
      nonces.set(code, searchParams.get('nonce'));
      response.setHeader('content-type', 'text/html');
      const links = [['Go on', { code }], ['Stop', { error: 'access_denied' }]];
      response.end(links.map(([name, more]) => `<a href="${back(searchParams, more).replaceAll('&', '&amp;')}">${name}</a>`).join(' '));
      return;
    }
    const answer = answers[pathname];
    if (!answer) {
      // As for the icon, which a browser asks for by itself.
      response.writeHead(404).end();
      return;
    }
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(answer(new URLSearchParams(body))));
  });
  issuer.url = url;
  issuer.settings = `[auth.oidc.corp]\nissuer = "${url}"\naudience = "pes"\ntenant = "default"\nclient_id = "console"\nlogin_scope = "openid read run"\n`;
  return issuer;
}

// A provider of OpenID Connect made of npm's oidc-provider, as the tests want it: people sign in with any name, and a
// client gets tokens for the API. A line on its input has it sign with another key, and publish the one before, too.
//
//   node provider.mjs PORT REDIRECT_URI

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

const [port, redirectUri] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const keys = [];
let provider;

/** Signs with a new key from now on. */
function rotate() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: 'jwk' }), kid: `k${keys.length + 1}`, use: 'sig', alg: 'RS256' });
  provider = new Provider(issuer, {
    jwks: { keys },
    clients: [{
      client_id: 'console',
      client_secret: 'a secret of the client & more',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'client_credentials'],
    }],
    scopes: ['openid', 'read', 'run', 'approve'],
    cookies: { keys: ['signs the cookies of a test'] },
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: 'read run', audience: 'pes', accessTokenFormat: 'jwt' }),
      },
    },
  });
}

rotate();
createServer((request, response) => provider.callback()(request, response)).listen(Number(port), '127.0.0.1', () => {
  console.log('ready');
});
createInterface({ input: process.stdin }).on('line', () => {
  rotate();
  console.log('rotated');
});

// A server that requires keys.

/** The key that may do everything. */
export const ADMIN = 'pes_test_admin_0123456789abcdef0123456789abcdef';

/** The environment of a server that knows this key. */
export const KEYS = { PES_API_KEYS: `default/root:read+run+approve+admin:${ADMIN}` };

export const bearer = (key) => ({ authorization: `Bearer ${key}` });

"""Verifies a receipt: verify_receipt.py RECEIPT KEYS. Written from docs/AUDIT.md alone; needs nothing but Python 3.8.
RECEIPT is what GET /threads/{id}/tool-calls/{callId}/receipt answered, KEYS what GET /audit/keys did."""
import base64, hashlib, json, sys

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def need(holds, why):  # Not `assert`, which `python -O` leaves out.
    if not holds:
        sys.exit(why)


def plus(p, q):  # Points of edwards25519 are added in extended coordinates (RFC 8032, 5.1.4).
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] * D, 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, p):
    q = (0, 1, 1, 0)
    for bit in bin(n)[2:]:
        q = plus(q, q)
        q = plus(q, p) if bit == "1" else q
    return q


def point(text):
    y = int.from_bytes(text, "little") & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    need((x * x - square) % P == 0, "no point of the curve")
    x = x if x & 1 == text[31] >> 7 else P - x
    return x, y, 1, x * y % P


def is_signed(key, text, signature):
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + text).digest(), "little")
    base = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    p, q = times(s, base), plus(point(signature[:32]), times(h % L, point(key)))
    return s < L and (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def opened(jws, typ, keys):  # The signed content, if one of these keys signed it as this type.
    header, payload, signature = jws.split(".")
    said = json.loads(decoded(header))
    key = next(key for key in keys if key["kid"] == said["kid"])
    is_ours = said["alg"] == "EdDSA" and said["typ"] == typ
    need(is_ours and is_signed(decoded(key["x"]), f"{header}.{payload}".encode(), decoded(signature)), "a signature is wrong")
    return json.loads(decoded(payload))


def sha256(data):
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


if len(sys.argv) != 3:
    sys.exit(__doc__)
answer, keys = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
if "jws" not in answer:
    sys.exit("the receipt is not signed: the server had no PES_AUDIT_KEY, or this is no receipt")
receipt = opened(answer["jws"], "pes-receipt+jwt", keys["keys"])
need(receipt == answer["receipt"], "the receipt is not what was signed")
decision, executed, lines, calls = receipt["decision"], receipt["executed"], [], {}
for proof in receipt["lines"]:
    digest = proof["before"]
    for step in [sha256(proof["line"])] + proof["after"]:
        digest = sha256(bytes.fromhex(digest) + bytes.fromhex(step))
    signed = opened(proof["checkpoint"]["jws"], "pes-audit-checkpoint+jwt", keys["keys"])
    n = proof["n"] + len(proof["after"])
    need((signed["hash"], signed["n"], signed["tenant"]) == (digest, n, receipt["tenant"]), "a line is not of the chain")
    lines.append(json.loads(proof["line"]))
    detail = lines[-1]["detail"]  # The line of a timer names no call, but the question about it.
    asked = detail.get("suspensionId", proof["n"])
    calls[asked] = detail.setdefault("callId", calls.get(asked))
    need(lines[-1]["threadId"] == receipt["threadId"] and lines[-1]["detail"]["callId"] == receipt["callId"], "another call")
if decision:
    asked = receipt["question"] and receipt["question"]["suspensionId"]
    said = [line for line in lines if (line["actor"], line["action"]) == (decision["by"], decision["decision"])]
    said = [line for line in said if line["detail"].get("suspensionId") == asked]
    need(any(line["at"] == decision["at"] and line["detail"].get("digest") == decision["digest"] for line in said), "nobody decided so")
    need(sha256(receipt["asked"]) == receipt["shown"], "something else was shown")
if executed:
    need(sha256(receipt["edited"] or receipt["asked"]) == executed["digest"], "something else was called")
    need(decision and (decision["digest"] or receipt["shown"]) == executed["digest"], "something else was approved")
print(f"{receipt['callId']}: {len(lines)} lines of the audit; {decision and decision['decision']} by {decision and decision['by']}")

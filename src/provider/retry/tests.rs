use http::HeaderValue;

use super::*;

#[test]
fn every_form_is_read() {
    type Headers = &'static [(&'static str, &'static str)];
    let table: [(Headers, Option<Millis>); 8] = [
        (&[("retry-after", "2")], Some(2000)),
        (&[("retry-after", "0.25")], Some(250)),
        (&[("retry-after", "9"), ("retry-after-ms", "120")], Some(120)),
        (&[("retry-after", "Sat, 21 Nov 2026 10:00:30 GMT"), ("date", "Sat, 21 Nov 2026 10:00:00 GMT")], Some(30_000)),
        (&[("retry-after", "Sat, 21 Nov 2026 09:00:00 GMT"), ("date", "Sat, 21 Nov 2026 10:00:00 GMT")], Some(0)),
        (&[("retry-after", "1e300")], Some(MAX_RETRY_AFTER)),
        (&[("retry-after", "soon")], None),
        (&[], None),
    ];
    for (headers, expected) in table {
        let map = headers.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_str(v).unwrap())).collect();
        assert_eq!(after(&map), expected, "{headers:?}");
    }
}

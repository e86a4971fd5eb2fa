use std::cell::Cell;
use std::future::ready;

use super::*;
use crate::domain::fault::Code;

#[tokio::test(start_paused = true)]
async fn lines_break_off_when_their_caller_is_no_longer_admitted() {
    let (is_admitted, checks) = (Cell::new(true), Cell::new(0));
    let endless = stream::repeat_with(|| Ok(Bytes::from_static(b"{}\n")));
    let check = || {
        checks.set(checks.get() + 1);
        ready(if is_admitted.get() { Ok(()) } else { Err(Fault::new(Code::Unauthorized, "It was revoked.")) })
    };
    let mut lines = Box::pin(checked(endless, check));
    let mut next = async || lines.next().await.expect("it is endless").map_err(|fault| fault.code);
    for count in [0, 1] {
        for _ in 0..3 {
            assert!(next().await.is_ok());
        }
        assert_eq!(checks.get(), count);
        tokio::time::advance(RECHECK_INTERVAL).await;
    }
    is_admitted.set(false);
    assert_eq!(next().await, Err(Code::Unauthorized));
}

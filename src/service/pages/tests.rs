//! Every entry is returned once, whatever the page size.

use super::*;

#[tokio::test]
async fn every_entry_comes_once_over_full_short_and_empty_pages() {
    let pages = [vec![1, 2], vec![], vec![3], vec![]];
    let read = |ask: PageAsk| {
        assert_eq!(ask.limit, 2, "as it was asked for first");
        let at: usize = ask.cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let next_cursor = (at + 1 < pages.len()).then(|| (at + 1).to_string());
        std::future::ready(Ok(Page::new(pages[at].clone(), next_cursor)))
    };
    let mut entries = Entries::from(PageAsk::first(2), read);
    let mut seen = Vec::new();
    while let Some(entry) = entries.next().await.unwrap() {
        seen.push(entry);
    }
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(entries.next().await.unwrap(), None);
}

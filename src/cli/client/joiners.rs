//! Characters that are not seen and that a word or an emoji needs, as in `console/text.js`.

use icu_properties::props::{EmojiModifier, ExtendedPictographic, GeneralCategory, GeneralCategoryGroup, Script};
use icu_properties::script::ScriptWithExtensions;
use icu_properties::{CodePointMapData, CodePointSetData};

/// Scripts whose letters join nothing, and the letters and marks that every script shares.
const WITHOUT_JOINERS: [Script; 5] =
    [Script::Latin, Script::Greek, Script::Cyrillic, Script::Common, Script::Inherited];

/// Whether a soft hyphen stands between letters, a joiner between those of scripts that join, or a zero width joiner between
/// the parts of an emoji. `before`: the two characters before it, the nearest one last.
pub(super) fn is_needed(before: [Option<char>; 2], c: char, after: Option<char>) -> bool {
    let [second, nearest] = before;
    let (Some(nearest), Some(after)) = (nearest, after) else { return false };
    match c {
        '\u{AD}' => is_letter(nearest) && is_letter(after),
        '\u{200C}' => joins(nearest) && joins(after),
        '\u{200D}' => {
            let ends_part = is_part(nearest) || (ends_emoji(nearest) && second.is_some_and(is_part));
            (joins(nearest) && joins(after)) || (ends_part && is_part(after))
        }
        _ => false,
    }
}

fn is_in(c: char, group: GeneralCategoryGroup) -> bool {
    group.contains(CodePointMapData::<GeneralCategory>::new().get(c))
}

fn is_letter(c: char) -> bool {
    is_in(c, GeneralCategoryGroup::Letter)
}

fn joins(c: char) -> bool {
    let scripts = ScriptWithExtensions::new();
    (is_letter(c) || is_in(c, GeneralCategoryGroup::Mark))
        && !WITHOUT_JOINERS.iter().any(|script| scripts.has_script(c, *script))
}

fn is_part(c: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(c)
}

/// How a part of an emoji may end: with the choice of its coloured form, or with a skin tone.
fn ends_emoji(c: char) -> bool {
    c == '\u{FE0F}' || CodePointSetData::new::<EmojiModifier>().contains(c)
}

//! Characters that are not seen and that a word or an emoji needs, as in `console/text.js`.

use icu_properties::props::{EmojiModifier, ExtendedPictographic, GeneralCategory, GeneralCategoryGroup, Script};
use icu_properties::script::ScriptWithExtensions;
use icu_properties::{CodePointMapData, CodePointSetData};

/// Scripts whose letters are shaped by their neighbours. In others a joiner changes nothing that is seen: it could hide
/// something.
const WITH_JOINERS: [Script; 17] = [
    Script::Arabic,
    Script::Syriac,
    Script::Mongolian,
    Script::Nko,
    Script::Devanagari,
    Script::Bengali,
    Script::Gurmukhi,
    Script::Gujarati,
    Script::Oriya,
    Script::Tamil,
    Script::Telugu,
    Script::Kannada,
    Script::Malayalam,
    Script::Sinhala,
    Script::Khmer,
    Script::Myanmar,
    Script::Tibetan,
];

/// Whether a joiner stands between letters that it shapes, or a zero width joiner between the parts of an emoji. `before`: the
/// two characters before it, the nearest one last.
pub(super) fn is_needed(before: [Option<char>; 2], c: char, after: Option<char>) -> bool {
    let [second, nearest] = before;
    let (Some(nearest), Some(after)) = (nearest, after) else { return false };
    match c {
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

fn joins(c: char) -> bool {
    let scripts = ScriptWithExtensions::new();
    (is_in(c, GeneralCategoryGroup::Letter) || is_in(c, GeneralCategoryGroup::Mark))
        && WITH_JOINERS.iter().any(|script| scripts.has_script(c, *script))
}

fn is_part(c: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(c)
}

/// How a part of an emoji may end: with the choice of its coloured form, or with a skin tone.
fn ends_emoji(c: char) -> bool {
    c == '\u{FE0F}' || CodePointSetData::new::<EmojiModifier>().contains(c)
}

//! Short names in atomic words.

use std::sync::atomic::{AtomicU64, Ordering};

/// Writes the longest part of `text` that fits, cut between two characters.
pub(crate) fn write(words: &[AtomicU64], text: &str) {
    let room = words.len() * 8;
    let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let mut bytes = vec![0; room];
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    for (word, bytes) in words.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
    }
}

/// Reads the name as text that is safe for a terminal. Any program may have written the words.
pub(crate) fn read(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    of_bytes(&bytes)
}

/// Converts bytes, up to the first 0, to text that is safe for a terminal.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    let bytes: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
    printable(&String::from_utf8_lossy(&bytes))
}

/// Returns the text with a replacement character for each control or invisible character.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if is_visible(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// True unless the character moves the cursor, ends a line, changes the direction of the text or has no width.
fn is_visible(letter: char) -> bool {
    let is_selector =
        matches!(letter, '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    let is_blank = matches!(letter, '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}');
    // `escape_debug` does not escape printable characters. At the start of a string, it also escapes an accent, so
    // write an `a` before the letter.
    let is_printed = || String::from_iter(['a', letter]).escape_debug().count() == 2;
    matches!(letter, '"' | '\'' | '\\') || !is_selector && !is_blank && is_printed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_between_two_letters() {
        let words: [AtomicU64; 2] = Default::default();
        for (text, expected) in [
            ("cg", "cg"),
            ("", ""),
            ("0123456789abcdefgh", "0123456789abcdef"),
            ("0123456789abcdeé", "0123456789abcde"),
        ] {
            write(&words, text);
            assert_eq!(read(&words), expected);
        }
        words[0].store(u64::from_le_bytes(*b"a\x1b[2J\xff\xfe\n"), Ordering::Relaxed);
        assert!(!read(&words).contains(|letter: char| letter.is_control()));
        for text in
            ["gpj\u{202e}.exe", "a\u{2028}b", "c\u{200b}g", "\u{feff}cg", "c\u{2066}g", "c\u{fe0f}g", "c\u{ad}g"]
        {
            write(&words, text);
            assert!(read(&words).contains(char::REPLACEMENT_CHARACTER), "{text:?}");
        }
        for text in ["ra\u{301}d", "größe \"1\"", "計算 \\ 'x'", "ไทย", "🦀"] {
            write(&words, text);
            assert_eq!(read(&words), text);
        }
    }
}

use std::fmt::{self, Write};

/// JSON as reports have it. Shown, it is text, as configurations are.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`, or what is not there.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// An object, its members in their order.
    Object(Vec<(String, Json)>),
}

const NOTHING: &Json = &Json::Null;
const DEEPEST: usize = 100;

impl Json {
    /// Takes a text apart; `None` if it is no JSON.
    pub fn parse(text: &str) -> Option<Json> {
        let mut reader = Reader { rest: text, depth: 0 };
        let value = reader.value()?;
        reader.blanks();
        reader.rest.is_empty().then_some(value)
    }

    /// The number, or the one that a text spells, as reports have it for 64 bits.
    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Number(n) => Some(*n),
            Json::String(s) => s.parse().ok(),
            _ => None,
        }
    }

    /// The text.
    pub fn string(&self) -> Option<&str> {
        match self {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    /// The elements of a list; of anything else none.
    pub fn elements(&self) -> &[Json] {
        match self {
            Json::Array(elements) => elements,
            _ => &[],
        }
    }
}

impl std::ops::Index<&str> for Json {
    type Output = Json;
    /// A member of an object; `Null` if there is none.
    fn index(&self, key: &str) -> &Json {
        match self {
            Json::Object(members) => {
                members.iter().find(|(name, _)| name == key).map_or(NOTHING, |(_, value)| value)
            }
            _ => NOTHING,
        }
    }
}

impl std::ops::Index<usize> for Json {
    type Output = Json;
    /// An element of a list; `Null` if there is none.
    fn index(&self, index: usize) -> &Json {
        self.elements().get(index).unwrap_or(NOTHING)
    }
}

impl fmt::Display for Json {
    /// As JSON. A number that it cannot have, such as NaN, is `null`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Number(number) if number.is_finite() => write!(f, "{number}"),
            Json::Null | Json::Number(_) => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::String(text) => write_text(f, text),
            Json::Array(elements) => {
                write_list(f, "[", elements, "]", |f, element| write!(f, "{element}"))
            }
            Json::Object(members) => write_list(f, "{", members, "}", |f, (name, value)| {
                write_text(f, name)?;
                write!(f, ": {value}")
            }),
        }
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    begin: &str,
    items: &[T],
    end: &str,
    write_item: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str(begin)?;
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write_item(f, item)?;
    }
    f.write_str(end)
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c < ' ' => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Whether this comes next, behind blanks; then it is passed.
    fn take(&mut self, token: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Items with commas between, up to `end`.
    fn list<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.depth += 1;
        let mut items = vec![];
        if self.depth > DEEPEST {
            return None;
        }
        if !self.take(end) {
            loop {
                items.push(item(self)?);
                if self.take(end) {
                    break;
                }
                if !self.take(",") {
                    return None;
                }
            }
        }
        self.depth -= 1;
        Some(items)
    }

    fn value(&mut self) -> Option<Json> {
        if self.take("{") {
            let member = |r: &mut Self| {
                let key = if r.take("\"") { r.text()? } else { return None };
                if r.take(":") {
                    Some((key, r.value()?))
                } else {
                    None
                }
            };
            self.list("}", member).map(Json::Object)
        } else if self.take("[") {
            self.list("]", Self::value).map(Json::Array)
        } else if self.take("\"") {
            self.text().map(Json::String)
        } else if self.take("true") {
            Some(Json::Bool(true))
        } else if self.take("false") {
            Some(Json::Bool(false))
        } else if self.take("null") {
            Some(Json::Null)
        } else {
            let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            let starts = number.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            number.parse().ok().filter(|_| starts).map(Json::Number)
        }
    }

    /// Behind the quotation mark.
    fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let end = self.rest.find(|c| c == '"' || c == '\\' || c < ' ')?;
            text.push_str(&self.rest[..end]);
            let mut rest = self.rest[end..].chars();
            match (rest.next()?, rest.next()) {
                ('"', _) => {
                    self.rest = &self.rest[end + 1..];
                    return Some(text);
                }
                ('\\', Some('u')) => {
                    self.rest = &self.rest[end + 2..];
                    text.push(self.code_point()?);
                    continue;
                }
                ('\\', Some(c)) => text.push(match c {
                    '"' | '\\' | '/' => c,
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    _ => return None,
                }),
                _ => return None,
            }
            self.rest = rest.as_str();
        }
    }

    /// Behind `\u`; of one beyond 16 bits two follow each other.
    fn code_point(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.rest = self.rest.strip_prefix("\\u")?;
        let second = self.hex()?.checked_sub(0xdc00).filter(|&s| s < 0x400)?;
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + second)
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.rest.get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.rest = &self.rest[4..];
        u32::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_json_apart() {
        let json =
            Json::parse(r#" {"a": [1, -2.5e1, "7"], "b": {"c": true, "d": null}, "e": []} "#);
        let json = json.unwrap();
        let numbers: Vec<_> = json["a"].elements().iter().map(Json::number).collect();
        assert_eq!(numbers, [Some(1.0), Some(-25.0), Some(7.0)]);
        assert_eq!(json["b"]["c"], Json::Bool(true));
        assert_eq!(json["b"]["d"], Json::Null);
        assert_eq!(json["x"]["y"][3], Json::Null);
        assert_eq!(json["e"], Json::Array(vec![]));
        let text = Json::parse(r#""a\n\"\\\u00e9\ud83d\ude00é""#).unwrap();
        assert_eq!(text.string(), Some("a\n\"\\é😀é"));
    }

    #[test]
    fn what_it_writes_it_reads() {
        let text = r#"{"a": [1, -0.25, "7\u000a\"\\é"], "b": {"c": true, "d": null}, "e": []}"#;
        let json = Json::parse(text).unwrap();
        assert_eq!(json.to_string(), text);
        for number in [0.1, 1e300, -5e-324, 9007199254740993.0] {
            let number = Json::Number(number);
            assert_eq!(Json::parse(&number.to_string()), Some(number));
        }
        assert_eq!(Json::Array(vec![Json::Number(f64::NAN)]).to_string(), "[null]");
    }

    #[test]
    fn refuses_what_is_none() {
        for text in [
            "",
            "{",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{1: 2}",
            "\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "+1",
            ".5",
            "nul",
            "1 2",
            "inf",
            "\"\n\"",
            "\"\\u12\"",
            "\"\\ud800\\ud800\"",
        ] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
        assert_eq!(Json::parse(&"[".repeat(1 << 20)), None);
    }
}

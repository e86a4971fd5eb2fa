//! Expressions: a Pratt parser that evaluates as it reads. The grammar is closed, length and depth are bounded.

use std::fmt;

/// Maximum length of an expression, in characters.
pub(super) const MAX_LENGTH: usize = 1000;
const MAX_DEPTH: usize = 64;

/// What is wrong, and at which character (counted from 1).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExpressionError {
    at: usize,
    why: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at, self.why)
    }
}

/// The value, always finite.
pub(super) fn evaluate(text: &str) -> Result<f64, ExpressionError> {
    let mut parser = Parser { text: text.chars().collect(), at: 0, depth: 0 };
    if parser.text.len() > MAX_LENGTH {
        return Err(ExpressionError {
            at: MAX_LENGTH,
            why: format!("the expression is longer than {MAX_LENGTH} characters"),
        });
    }
    let value = parser.expression(0)?;
    match parser.peek() {
        None => Ok(value),
        Some(')') => parser.wrong("there is no `(` for this `)`"),
        Some(other) => parser.wrong(format!("expected an operator, found `{other}`")),
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

/// How strongly an operator binds its left and its right side.
fn binding(operator: char) -> Option<(u8, u8)> {
    match operator {
        '+' | '-' => Some((1, 2)),
        '*' | '/' | '%' => Some((3, 4)),
        '^' => Some((8, 7)),
        _ => None,
    }
}

/// A sign binds weaker than `^` and stronger than the rest: -2^2 = -4.
const SIGN: u8 = 5;

impl Parser {
    fn expression(&mut self, weakest: u8) -> Result<f64, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.wrong(format!("nested deeper than {MAX_DEPTH}"));
        }
        let mut value = self.operand()?;
        while let Some(operator) = self.peek() {
            let Some((left, right)) = binding(operator) else { break };
            if left < weakest {
                break;
            }
            let at = self.at;
            self.at += 1;
            let other = self.expression(right)?;
            value = apply(operator, value, other).map_err(|why| ExpressionError { at: at + 1, why: why.to_owned() })?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn operand(&mut self) -> Result<f64, ExpressionError> {
        match self.peek() {
            Some('-') => {
                self.at += 1;
                Ok(-self.expression(SIGN)?)
            }
            Some('+') => {
                self.at += 1;
                self.expression(SIGN)
            }
            Some('(') => {
                self.at += 1;
                let value = self.expression(0)?;
                self.expect(')')?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(),
            Some(other) => self.wrong(format!("expected a number, found `{other}`")),
            None => self.wrong("expected a number, found the end"),
        }
    }

    fn number(&mut self) -> Result<f64, ExpressionError> {
        let start = self.at;
        let mut digits = self.take(|c| c.is_ascii_digit() || c == '.');
        let has_exponent = matches!(self.text.get(self.at), Some('e' | 'E'))
            && matches!(self.text.get(self.at + 1), Some('0'..='9' | '+' | '-'));
        if has_exponent {
            digits.push('e');
            digits.push(self.text[self.at + 1]);
            self.at += 2;
            digits.push_str(&self.take(|c| c.is_ascii_digit()));
        }
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(_) => Err(ExpressionError { at: start + 1, why: format!("`{digits}` is too large") }),
            Err(_) => Err(ExpressionError { at: start + 1, why: format!("`{digits}` is no number") }),
        }
    }

    fn name(&mut self) -> Result<f64, ExpressionError> {
        let start = self.at;
        let name = self.take(|c| c.is_ascii_alphanumeric());
        match name.as_str() {
            "pi" => return Ok(std::f64::consts::PI),
            "e" => return Ok(std::f64::consts::E),
            _ => {}
        }
        if self.peek() != Some('(') {
            return Err(ExpressionError { at: start + 1, why: format!("`{name}` is not known here") });
        }
        self.at += 1;
        let mut values = vec![self.expression(0)?];
        while self.peek() == Some(',') {
            self.at += 1;
            values.push(self.expression(0)?);
        }
        self.expect(')')?;
        call(&name, &values).map_err(|why| ExpressionError { at: start + 1, why })
    }

    fn expect(&mut self, expected: char) -> Result<(), ExpressionError> {
        match self.peek() {
            Some(found) if found == expected => {
                self.at += 1;
                Ok(())
            }
            Some(found) => self.wrong(format!("expected `{expected}`, found `{found}`")),
            None => self.wrong(format!("expected `{expected}`, found the end")),
        }
    }

    fn peek(&mut self) -> Option<char> {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|c| belongs(*c)) {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    fn wrong<T>(&self, why: impl Into<String>) -> Result<T, ExpressionError> {
        Err(ExpressionError { at: self.at + 1, why: why.into() })
    }
}

fn apply(operator: char, left: f64, right: f64) -> Result<f64, &'static str> {
    let value = match operator {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        '/' | '%' if right == 0.0 => return Err("division by zero"),
        '^' if left == 0.0 && right < 0.0 => return Err("division by zero"),
        '/' => left / right,
        '%' => left % right,
        _ => left.powf(right),
    };
    finite(value)
}

fn finite(value: f64) -> Result<f64, &'static str> {
    match (value.is_nan(), value.is_infinite()) {
        (true, _) => Err("there is no real result"),
        (_, true) => Err("the result is too large"),
        (false, false) => Ok(value),
    }
}

fn call(name: &str, values: &[f64]) -> Result<f64, String> {
    let value = match (name, values) {
        ("abs", [x]) => x.abs(),
        ("ceil", [x]) => x.ceil(),
        ("cos", [x]) => x.cos(),
        ("exp", [x]) => x.exp(),
        ("floor", [x]) => x.floor(),
        ("ln" | "log10", [x]) if *x <= 0.0 => return Err(format!("{name} needs a positive number")),
        ("ln", [x]) => x.ln(),
        ("log10", [x]) => x.log10(),
        ("round", [x]) => x.round(),
        ("sin", [x]) => x.sin(),
        ("sqrt", [x]) if *x < 0.0 => return Err("sqrt of a negative number".to_owned()),
        ("sqrt", [x]) => x.sqrt(),
        ("tan", [x]) => x.tan(),
        ("max", [first, rest @ ..]) => rest.iter().fold(*first, |a, b| a.max(*b)),
        ("min", [first, rest @ ..]) => rest.iter().fold(*first, |a, b| a.min(*b)),
        ("abs" | "ceil" | "cos" | "exp" | "floor" | "ln" | "log10" | "round" | "sin" | "sqrt" | "tan", _) => {
            return Err(format!("{name} takes one value, not {}", values.len()));
        }
        _ => return Err(format!("there is no function `{name}`")),
    };
    finite(value).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_that_of_school() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1+2)*3", 9.0),
            ("2^3^2", 512.0),
            ("-2^2", -4.0),
            ("2^-1", 0.5),
            ("10 - 4 - 3", 3.0),
            ("7 % 4 * 2", 6.0),
            ("- -3", 3.0),
            ("1.5e2 + .5", 150.5),
            ("2e", f64::NAN),
            ("max(1, min(5, 9), 3) + sqrt(16)", 9.0),
            ("round(2*pi)", 6.0),
        ] {
            if expected.is_nan() {
                assert!(evaluate(text).is_err(), "{text}");
            } else {
                assert_eq!(evaluate(text), Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            ("", "at character 1: expected a number, found the end"),
            ("2 +", "at character 4: expected a number, found the end"),
            ("2 $ 3", "at character 3: expected an operator, found `$`"),
            ("(1", "at character 3: expected `)`, found the end"),
            ("1)", "at character 2: there is no `(` for this `)`"),
            ("1/(2-2)", "at character 2: division by zero"),
            ("0^-1", "at character 2: division by zero"),
            ("sqrt(-1)", "at character 1: sqrt of a negative number"),
            ("(-8)^0.5", "at character 5: there is no real result"),
            ("9^9^9^9", "at character 4: the result is too large"),
            ("system(1)", "at character 1: there is no function `system`"),
            ("x + 1", "at character 1: `x` is not known here"),
            ("1.2.3", "at character 1: `1.2.3` is no number"),
            ("sin(1,2)", "at character 1: sin takes one value, not 2"),
        ] {
            assert_eq!(evaluate(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        assert!(evaluate(&"(".repeat(900)).unwrap_err().why.contains("nested deeper"));
        assert!(evaluate(&"-".repeat(1000)).unwrap_err().why.contains("nested deeper"));
        assert!(evaluate(&"1+".repeat(501)).unwrap_err().why.contains("longer than"));
        assert_eq!(evaluate(&format!("{}1", "1+".repeat(499))), Ok(500.0));
    }
}

//! `calculator`: arithmetic by a closed grammar.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Number, Value, json};

use super::arithmetic;
use crate::domain::Millis;
use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) struct Calculator {
    spec: Arc<ToolSpec>,
}

impl Calculator {
    pub(super) fn new() -> Self {
        let spec = ToolSpec {
            name: "calculator".to_owned(),
            description:
                "Calculates an expression of numbers, + - * / % ^, parentheses, pi, e and the functions abs ceil \
                          cos exp floor ln log10 max min round sin sqrt tan, to 15 digits."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "expression": { "type": "string", "minLength": 1, "maxLength": arithmetic::MAX_LENGTH }
                },
                "required": ["expression"],
                "additionalProperties": false
            }),
            output_schema: None,
            class: ToolClass::Read,
            idempotent: true,
            timeout_ms: 1_000,
            risk_level: None,
        };
        Self { spec: Arc::new(spec) }
    }
}

#[async_trait]
impl Tool for Calculator {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn at_once(&self, arguments: &Value, _: Millis) -> Option<Result<ToolOutput, ToolError>> {
        Some(calculated(arguments))
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        calculated(&arguments)
    }
}

fn calculated(arguments: &Value) -> Result<ToolOutput, ToolError> {
    let expression = arguments.get("expression").and_then(Value::as_str).unwrap_or_default();
    let result = arithmetic::evaluate(expression)
        .map_err(|wrong| ToolError::new(CallCode::Failed, wrong.to_string()).at("/expression"))?;
    let output = json!({ "expression": expression, "result": number(result) });
    Ok(ToolOutput::new(output))
}

/// To 15 significant digits, which every double holds exactly as written: `595 * 0.12` is 71.4, not 71.39999999999999. Whole
/// numbers have no decimal point as far as doubles are exact, and all their digits beyond.
fn number(result: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let result = if result.fract() == 0.0 { result } else { format!("{result:.14e}").parse().ok()? };
    if result.fract() == 0.0 && result.abs() <= EXACT {
        return Some(Number::from(result as i64));
    }
    Number::from_f64(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_digits_that_a_person_expects() {
        for (expression, shown) in [
            ("595 * 0.12", "71.4"),
            ("0.1 + 0.2", "0.3"),
            ("0.1 * 3 * 10", "3"),
            ("1 / 3", "0.333333333333333"),
            ("-2 / 3", "-0.666666666666667"),
            ("1 / 3 * 10 ^ -20", "3.33333333333333e-21"),
            ("0.5", "0.5"),
            ("2 ^ 53 - 1", "9007199254740991"),
            ("2 ^ 60", "1.152921504606847e+18"),
        ] {
            let output = calculated(&json!({ "expression": expression })).unwrap().output;
            assert_eq!(output["result"].to_string(), shown, "{expression}");
        }
    }
}

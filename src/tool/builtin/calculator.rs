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
                          cos exp floor ln log10 max min round sin sqrt tan, in double precision."
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
    Ok(ToolOutput { output, ..ToolOutput::default() })
}

/// Whole numbers without a decimal point, as far as doubles are exact.
fn number(result: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if result.fract() == 0.0 && result.abs() <= EXACT {
        return Some(Number::from(result as i64));
    }
    Number::from_f64(result)
}

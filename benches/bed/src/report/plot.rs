//! One SVG per workload: a group of bars for each case, one bar per subject. The height is its CPU per unit.

use std::fmt::Write;

use super::{Book, table::short};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const COLOURS: [&str; 5] = ["#888888", "#1f77b4", "#aec7e8", "#2ca02c", "#98df8a"];

/// A named value in a named group.
pub struct Bar {
    pub group: String,
    pub name: String,
    pub value: f64,
}

impl Book {
    /// The name and content of each workload's file.
    pub fn plots(&self) -> Vec<(String, String)> {
        let mut names: Vec<&'static str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.workload) {
                names.push(row.workload);
            }
        }
        let plot = |workload: &&'static str| {
            let rows: Vec<_> = self.rows.iter().filter(|row| row.workload == *workload).collect();
            // Raw commits have no process of their own, so the plot shows their rate.
            let is_rate = rows.iter().all(|row| self.figures(row).cpu_us == 0.0);
            let bars: Vec<Bar> = rows
                .iter()
                .map(|row| {
                    let told = self.figures(row);
                    let value = if is_rate { told.per_second } else { told.cpu_us };
                    Bar { group: row.case.clone(), name: row.subject.clone(), value }
                })
                .collect();
            let unit = rows.first().map_or("unit", |row| row.unit);
            let what = if is_rate { format!("{unit}s a second") } else { format!("CPU µs per {unit}") };
            (workload.to_lowercase().replace(' ', "-"), svg(&format!("{workload}: {what}"), &bars))
        };
        names.iter().map(plot).collect()
    }
}

/// The smallest of 1, 2, 5, 10, 20 … that is not below `value`.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|round| *round >= value).unwrap_or(value)
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    names.fold(Vec::new(), |mut found, name| {
        if !found.contains(&name) {
            found.push(name);
        }
        found
    })
}

pub fn svg(title: &str, bars: &[Bar]) -> String {
    let groups = distinct(bars.iter().map(|bar| bar.group.clone()));
    let names = distinct(bars.iter().map(|bar| bar.name.clone()));
    let most = round_up(bars.iter().map(|bar| bar.value).fold(0.0, f64::max));
    let (floor, height) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP);
    let slot = (WIDTH - LEFT) / groups.len().max(1) as f64;
    let wide = slot * 0.8 / names.len().max(1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let mut put =
        |line: String| out.write_str(&line).and_then(|()| out.write_char('\n')).expect("a String takes every write");
    for part in 0..=4 {
        let (y, value) = (floor - height * f64::from(part) / 4.0, most * f64::from(part) / 4.0);
        put(format!("<path d=\"M{LEFT} {y:.1}H{WIDTH}\" stroke=\"#dddddd\"/>"));
        put(format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, y + 4.0, short(value)));
    }
    for (nth, name) in names.iter().enumerate() {
        let (x, colour) = (LEFT + 130.0 * nth as f64, COLOURS[nth % COLOURS.len()]);
        put(format!("<rect x=\"{x}\" y=\"28\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"37\">{}</text>", x + 14.0, escaped(name)));
    }
    for (nth, group) in groups.iter().enumerate() {
        let x = LEFT + slot * (nth as f64 + 0.5);
        put(format!("<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", floor + 18.0, escaped(group)));
        for bar in bars.iter().filter(|bar| bar.group == *group) {
            let place = names.iter().position(|name| *name == bar.name).unwrap_or(0);
            let (x, high) = (LEFT + slot * (nth as f64 + 0.1) + wide * place as f64, height * bar.value / most);
            let (y, colour) = (floor - high, COLOURS[place % COLOURS.len()]);
            put(format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{colour}\"/>"
            ));
            let middle = x + wide / 2.0;
            put(format!(
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y - 3.0,
                short(bar.value)
            ));
        }
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_ends_at_a_round_value_above_all() {
        assert_eq!([0.3, 1.0, 1.1, 49.0, 51.0, 700.0].map(round_up), [0.5, 1.0, 2.0, 50.0, 100.0, 1_000.0]);
    }

    #[test]
    fn a_bar_is_as_high_as_its_value() {
        let bar = |group: &str, value: f64| Bar { group: group.to_owned(), name: "a<b".to_owned(), value };
        let drawn = svg("W", &[bar("x", 100.0), bar("y", 50.0)]);
        let all = HEIGHT - BOTTOM - TOP;
        assert!(
            drawn.contains(&format!("height=\"{all:.1}\"")) && drawn.contains(&format!("height=\"{:.1}\"", all / 2.0))
        );
        assert!(drawn.contains("a&lt;b") && !drawn.contains("NaN"));
    }
}

//! The report as one page: styles within, no scripts, nothing from elsewhere.

use std::fmt::Write as _;

use serde_json::Value;

use super::{OfRun, Report, Shown, svg};

const STYLE: &str = ":root{color-scheme:light dark;--t:light-dark(#1b1f24,#e4eaf0);--m:light-dark(#57606a,#9aa7b4);\
--b:light-dark(#fff,#0f1419);--r:light-dark(#f4f6f8,#182028);--l:light-dark(#d0d7de,#36404a)}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:0 auto;padding:20px;color:var(--t);background:var(--b)}\
h1{font-size:24px}h2{font-size:19px;margin-top:32px}h3{font-size:15px;margin-bottom:4px}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--l);vertical-align:top}\
.wide{overflow-x:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--r);border:1px solid var(--l);border-radius:6px;padding:8px 10px;font:13px/1.45 ui-monospace,monospace}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));gap:18px}figure{margin:0}figcaption{font-weight:600}\
.m{color:var(--m);font-weight:400;font-size:13px}svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--m)}\
.grid{stroke:var(--l);stroke-width:.7}polyline{fill:none;stroke-width:1.8;stroke:currentColor}circle{fill:currentColor}\
.c0{color:light-dark(#0b6bcb,#6cb2ff)}.c1{color:light-dark(#c2410c,#ff9a62)}.c2{color:light-dark(#137a4a,#5fd39b)}\
.c3{color:light-dark(#7c3aed,#bf9cff)}.c4{color:light-dark(#a3195b,#ff8bc0)}.c5{color:light-dark(#6b6f76,#a4acb5)}\
.notice{background:light-dark(#fff1d0,#3a2c10);color:light-dark(#7a4b00,#f0c26a);padding:6px 12px}\
.episode{border-left:4px solid var(--l);padding-left:14px;margin:18px 0}@media print{details{display:block}}";

/// The page.
pub(super) fn page(report: &Report) -> String {
    let names: Vec<String> = report.runs.iter().map(|run| escape(&run.name)).collect();
    let names = names.join(", ");
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{names}</title><style>{STYLE}</style>\
         </head><body><h1>{names}</h1>"
    );
    for run in &report.runs {
        for notice in &run.notices {
            let _ =
                write!(page, "<p class=\"notice\">{}: {}</p>", escape(&run.name), escape(notice));
        }
    }
    table(&mut page, report);
    page += "<h2>Curves</h2><div class=\"charts\">";
    for panel in &report.panels {
        let _ = write!(
            page,
            "<figure><figcaption>{} <span class=\"m\">{}</span></figcaption>{}<div class=\"m\">{}</div></figure>",
            escape(&panel.name),
            escape(panel.unit),
            svg::chart(panel),
            escape(panel.meaning)
        );
    }
    page += "</div>";
    for run in &report.runs {
        of_run(&mut page, run, report.runs.len() > 1);
    }
    page + "</body></html>\n"
}

fn table(page: &mut String, report: &Report) {
    *page += "<h2>Results</h2><div class=\"wide\"><table><thead><tr><th>run</th><th>selection</th>\
              <th>seed</th><th>held-out before</th><th>held-out after</th><th>last step's accuracy</th>\
              <th>failed calls in right episodes</th><th>response tokens</th><th>time</th></tr></thead><tbody>";
    for (index, run) in report.runs.iter().enumerate() {
        let results = &run.results;
        let steps = run.steps.map_or_else(String::new, |steps| format!(" of {steps}"));
        let _ = write!(
            page,
            "<tr><td><span class=\"c{}\">■</span> {} <span class=\"m\">{}, step {}{steps}</span></td>",
            index % 6,
            escape(&run.name),
            run.state,
            run.step,
        );
        for cell in results.cells() {
            let _ = write!(page, "<td>{}</td>", escape(&cell));
        }
        *page += "</tr>";
    }
    *page += "</tbody></table></div>";
}

fn of_run(page: &mut String, run: &OfRun, is_one_of_many: bool) {
    if is_one_of_many {
        let _ = write!(page, "<h2>{}</h2>", escape(&run.name));
    }
    if !run.tags.is_empty() || !run.notes.is_empty() {
        let _ = write!(page, "<p>{} {}</p>", escape(&run.tags.join(", ")), escape(&run.notes));
    }
    *page += "<h2>Episodes</h2>";
    if run.episodes.is_empty() {
        *page += "<p class=\"m\">There are none.</p>";
    }
    run.episodes.iter().for_each(|episode| of_episode(page, episode));
    let _ = write!(
        page,
        "<h2>Settings</h2><details open><summary>recipe</summary><pre>{}</pre></details>",
        escape(&run.config)
    );
    let environment = run.environment.as_ref().map(|it| format!("{it:#}")).unwrap_or_default();
    let _ = write!(
        page,
        "<h2>Environment</h2><p>{}</p><details><summary>all</summary><pre>{}</pre></details>",
        escape(&in_short(run.environment.as_ref())),
        escape(&environment)
    );
}

/// The environment in a sentence.
pub(super) fn in_short(environment: Option<&Value>) -> String {
    let Some(environment) = environment else { return "Nothing is told of it.".to_owned() };
    let text = |path: &str| match environment.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "not known".to_owned(),
        Some(value) => value.to_string(),
    };
    let layers = environment.pointer("/sandbox/layers").and_then(Value::as_array);
    let held = layers.into_iter().flatten().filter(|layer| layer["holds"] == true);
    let held: Vec<&str> = held.filter_map(|layer| layer["layer"].as_str()).collect();
    format!(
        "rocstar {}, {} cores, {}, Python {}; isolation: {}",
        text("/rocstar"),
        text("/host/cores"),
        text("/architecture"),
        text("/sandbox/python_version"),
        if held.is_empty() { "none told".to_owned() } else { held.join(", ") }
    )
}

fn of_episode(page: &mut String, episode: &Shown) {
    let _ = write!(
        page,
        "<div class=\"episode\"><h3>{}</h3><p class=\"m\">step {}, {}, sample {}</p><p>{}</p>",
        escape(episode.why),
        episode.step,
        escape(&episode.task),
        episode.sample,
        escape(&episode.problem)
    );
    for part in &episode.parts {
        let _ = write!(
            page,
            "<div class=\"m\">{}</div><pre>{}</pre>",
            escape(&part.name),
            escape(&part.text)
        );
    }
    let _ = write!(
        page,
        "<p>{} <span class=\"m\">(right is {})</span></p></div>",
        escape(&episode.verdict),
        escape(&episode.answer)
    );
}

/// Text as text.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(
            escape("<img onerror='x()'>&\""),
            "&lt;img onerror=&#39;x()&#39;&gt;&amp;&quot;"
        );
    }
}

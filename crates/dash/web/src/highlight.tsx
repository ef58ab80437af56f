// Python with its parts told apart. Text becomes text nodes, so nothing in it can be markup.

const PART =
  /(#[^\n]*)|("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|[rRbBfFuU]{0,2}"(?:\\.|[^"\\\n])*"?|[rRbBfFuU]{0,2}'(?:\\.|[^'\\\n])*'?)|\b(\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?j?|0[xXoObB][\da-fA-F_]+)\b|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|match|case)\b|\b([A-Za-z_]\w*)(?=\s*\()/g;

const CLASSES = ['comment', 'string', 'number', 'keyword', 'call'] as const;

/** Longer programs are shown plain: splitting them would cost more than it helps. */
const MOST_LETTERS = 40_000;

export function Python({ code }: { code: string }) {
  if (code.length > MOST_LETTERS) return <pre class="code">{code}</pre>;
  const parts: (string | preact.JSX.Element)[] = [];
  let at = 0;
  for (const match of code.matchAll(PART)) {
    const group = CLASSES.findIndex((_, index) => match[index + 1] !== undefined);
    if (match.index > at) parts.push(code.slice(at, match.index));
    parts.push(<span class={`py-${CLASSES[group] ?? 'plain'}`}>{match[0]}</span>);
    at = match.index + match[0].length;
  }
  parts.push(code.slice(at));
  return <pre class="code">{parts}</pre>;
}

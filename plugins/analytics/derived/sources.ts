/** The tables that a statement names after FROM and JOIN: enough to see that it would read what it writes. Pure. */

/** Text, quoted names, words, and single characters; comments are none of them. */
const TOKEN = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"((?:[^"]|"")*)"|([A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)|[^\s]/g
const ENDS = new Set(['where', 'group', 'having', 'window', 'qualify', 'order', 'limit', 'offset', 'union', 'intersect', 'except', 'select', 'using', 'sample'])

interface Token {
  /** A name as it is compared, or a character. */
  text: string
  isName: boolean
  quoted: boolean
}

function tokensOf(query: string): Token[] {
  const tokens: Token[] = []
  for (const [text, quoted, word] of query.matchAll(TOKEN)) {
    if (text.startsWith('--') || text.startsWith('/*')) continue
    if (quoted !== undefined) tokens.push({ text: quoted.replaceAll('""', '"').toLowerCase(), isName: true, quoted: true })
    else tokens.push({ text: (word ?? text[0]).toLowerCase(), isName: word !== undefined, quoted: false })
  }
  return tokens
}

/** In lower case: names of measurements are told apart by SQL without it. Names of a WITH are among them. */
export function sourcesOf(query: string): Set<string> {
  const tokens = tokensOf(query)
  const found = new Set<string>()
  /** Of each open bracket, the statement outside first: whether it is in its FROM, and whether a table comes next. */
  const levels = [{ from: false, table: false }]
  for (const [i, { text, isName, quoted }] of tokens.entries()) {
    const level = levels[levels.length - 1]
    const isKeyword = isName && !quoted
    if (text === '(' && !isName) {
      levels.push({ from: level.from && level.table, table: level.table })
      level.table = false
    } else if (text === ')' && !isName) {
      if (levels.length > 1) levels.pop()
    } else if (isKeyword && (text === 'from' || text === 'join')) {
      level.from = true
      level.table = true
    } else if (isKeyword && ENDS.has(text)) {
      level.from = false
      level.table = false
    } else if (text === ',' && !isName) level.table = level.from
    else if (level.table && isName && !(isKeyword && text === 'lateral')) {
      // Of "main.cpu" the last part is the table.
      if (tokens[i + 1]?.text === '.' && !tokens[i + 1].isName) continue
      found.add(text)
      level.table = false
    }
  }
  return found
}

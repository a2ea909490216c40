/** Queries as trees of text, so that a query that fails can be made smaller by cutting at its joints. */

/** What may take a part's place: an expression of the same type; anything may go that is an option. */
export type PartKind = 'vector' | 'scalar' | 'range' | 'text' | 'option'

export interface Part {
  kind: PartKind
  parts: (string | Part)[]
}

export const part = (kind: PartKind, ...parts: (string | Part)[]): Part => ({ kind, parts })

export const render = (tree: string | Part): string => (typeof tree === 'string' ? tree : tree.parts.map(render).join(''))

/** What stands for a part of a kind when nothing of it matters. */
const LEAST: Record<PartKind, Part | undefined> = {
  vector: part('vector', 'requests_total'),
  scalar: part('scalar', '1'),
  range: part('range', 'requests_total[5m]'),
  option: part('option', ''),
  text: undefined,
}

function* within(tree: Part, kind: PartKind): Generator<Part> {
  for (const inner of tree.parts) {
    if (typeof inner === 'string') continue
    if (inner.kind === kind) yield inner
    yield* within(inner, kind)
  }
}

/** Names, numbers, strings and single signs. */
const TOKEN = /\w+|"[^"]*"|\s+|./gsu

/** Every tree that lies one cut away, the larger cuts first; of plain text, every text without one token. */
export function* smaller(tree: Part): Generator<Part> {
  const text = render(tree)
  if (tree.kind === 'text') {
    const tokens = text.match(TOKEN) ?? []
    for (const i of tokens.keys()) yield part('text', tokens.toSpliced(i, 1).join(''))
    return
  }
  const least = LEAST[tree.kind]
  if (least !== undefined && render(least).length < text.length) yield least
  for (const inner of within(tree, tree.kind)) yield inner
  for (const [i, inner] of tree.parts.entries()) {
    if (typeof inner === 'string') continue
    for (const cut of smaller(inner)) yield { kind: tree.kind, parts: tree.parts.with(i, cut) }
  }
}

/** The smallest tree found, in a number of attempts, of which `fails` still says so. */
export async function shrink(tree: Part, fails: (query: string) => Promise<boolean>, attempts: number): Promise<Part> {
  const tried = new Set([render(tree)])
  search: while (true) {
    for (const candidate of smaller(tree)) {
      const text = render(candidate)
      if (tried.has(text)) continue
      if (attempts-- === 0) return tree
      tried.add(text)
      if (await fails(text)) {
        tree = candidate
        continue search
      }
    }
    return tree
  }
}

const INSERTED = [
  ...'(){}[],=~!<>+-*/%^@:"#\\.',
  ' ',
  '\n',
  'by',
  'on',
  'bool',
  'offset',
  'group_left',
  'rate',
  'sum',
  'or',
  '5m',
  '0',
  '1e',
  'ü',
  'Inf',
  'and',
  'fill',
  'step()',
  '"x"',
  '__name__',
]

/** The query with a token taken away, doubled, put elsewhere or put in, once or twice. */
export function damaged(tree: Part, random: () => number): Part {
  const tokens = render(tree).match(TOKEN) ?? []
  const below = (limit: number) => Math.floor(random() * limit)
  for (let i = 0; i <= below(2); i++) {
    const at = below(tokens.length)
    const action = below(4)
    if (action === 0) tokens.splice(at, 1)
    else if (action === 1) tokens.splice(at, 0, tokens[at] ?? '')
    else if (action === 2) tokens.splice(below(tokens.length), 0, ...tokens.splice(at, 1))
    else tokens.splice(at, 0, INSERTED[below(INSERTED.length)])
  }
  return part('text', tokens.join(''))
}

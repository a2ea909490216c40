/** Syntax trees of the queries asked last, by their text: dashboards ask the same ones again and again. Trees are never changed, so queries share them. */
import { RecentMap } from 'svcdb/lib/cache'
import type { Expr } from '../ast.ts'
import type { ParseLimits } from './cursor.ts'
import { parse } from './parse.ts'

/** Characters of all texts together; a tree takes some fifty bytes for each. */
const MAX_CHARS = 65_536
/** Longer texts are parsed each time: they are few, and one would take the room of many. */
const MAX_TEXT_CHARS = 8192

export class ParsedQueries {
  private readonly trees: RecentMap<string, Expr>

  constructor(maxChars: number = MAX_CHARS) {
    this.trees = new RecentMap(maxChars, (_, key) => key.length)
  }

  /** @throws ParseError */
  get(query: string, limits: ParseLimits): Expr {
    if (query.length > MAX_TEXT_CHARS) return parse(query, limits)
    const key = `${limits.maxLength} ${limits.maxDepth} ${query}`
    const known = this.trees.get(key)
    if (known !== undefined) return known
    const tree = parse(query, limits)
    this.trees.set(key, tree)
    return tree
  }
}

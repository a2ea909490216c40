/** Syntax trees of the queries asked last, by their text: dashboards ask the same ones again and again. Trees are never changed, so queries share them. */
import type { Expr } from '../ast.ts'
import type { ParseLimits } from './cursor.ts'
import { parse } from './parse.ts'

/** Characters of all texts together; a tree takes some fifty bytes for each. */
const MAX_CHARS = 65_536
/** Longer texts are parsed each time: they are few, and one would take the room of many. */
const MAX_TEXT_CHARS = 8192

export class ParsedQueries {
  private readonly trees = new Map<string, Expr>()
  private readonly maxChars: number
  private chars = 0

  constructor(maxChars: number = MAX_CHARS) {
    this.maxChars = maxChars
  }

  /** @throws ParseError */
  get(query: string, limits: ParseLimits): Expr {
    if (query.length > MAX_TEXT_CHARS) return parse(query, limits)
    const key = `${limits.maxLength} ${limits.maxDepth} ${query}`
    let tree = this.trees.get(key)
    if (tree === undefined) {
      tree = parse(query, limits)
      this.chars += key.length
      for (const oldest of this.trees.keys()) {
        if (this.chars <= this.maxChars) break
        this.trees.delete(oldest)
        this.chars -= oldest.length
      }
    } else this.trees.delete(key)
    this.trees.set(key, tree) // the one asked last goes last
    return tree
  }
}

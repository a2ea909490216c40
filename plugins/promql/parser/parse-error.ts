import type { Pos } from '../ast.ts'

/** A query that does not parse. `message` is the text Prometheus answers: "1:5: parse error: ...". */
export class ParseError extends Error {
  readonly errorType = 'bad_data'
  readonly pos: Pos

  constructor(query: string, pos: Pos, cause: string) {
    super(`${lineColumn(query, pos.start)}: parse error: ${cause}`)
    this.name = 'ParseError'
    this.pos = pos
  }
}

/** "line:column" of a place in the query, both from 1; columns count bytes of UTF-8. */
export function lineColumn(query: string, offset: number): string {
  if (query === '') return 'unknown position'
  if (offset < 0 || offset > query.length) return 'invalid position'
  let line = 1
  let lineStart = 0
  for (let at = query.indexOf('\n'); at >= 0 && at < offset; at = query.indexOf('\n', at + 1)) {
    line++
    lineStart = at + 1
  }
  return `${line}:${Buffer.byteLength(query.slice(lineStart, offset)) + 1}`
}

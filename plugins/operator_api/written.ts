/** The JSON of an answer, written a row of a list at a time: a page of tasks may have megabytes of prose. */
import type { Work } from 'svcdb/lib/event-loop'

/** Characters that are turned into bytes together. */
const CHUNK = 65_536

/** @returns the bytes of what `JSON.stringify` gives. */
export function* written(body: unknown): Work<Buffer> {
  const chunks: Buffer[] = []
  let text = ''
  for (const slice of slicesOf(body)) {
    text += slice
    if (text.length < CHUNK) continue
    chunks.push(Buffer.from(text))
    text = ''
    yield
  }
  chunks.push(Buffer.from(text))
  return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
}

/** Lists are members of the whole. */
function* slicesOf(body: unknown): Generator<string, void, void> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return yield JSON.stringify(body)
  const members = Object.entries(body).filter(([, value]) => value !== undefined)
  for (const [index, [name, value]] of members.entries()) {
    yield `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`
    if (Array.isArray(value)) yield* rowsOf(value)
    else yield JSON.stringify(value)
  }
  yield members.length === 0 ? '{}' : '}'
}

function* rowsOf(rows: readonly unknown[]): Generator<string, void, void> {
  for (const [index, row] of rows.entries()) yield `${index === 0 ? '[' : ','}${JSON.stringify(row) ?? 'null'}`
  yield rows.length === 0 ? '[]' : ']'
}

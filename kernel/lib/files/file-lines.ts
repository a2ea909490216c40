/** Files of lines, such as of JSON: a line ends at a line feed and nowhere else. That of node:readline ends lines at U+2028 and U+2029 too, which JSON has within texts. */
import { createReadStream } from 'node:fs'

const NEWLINE = 10
/** Bytes that are read at a time. */
const READ = 1 << 20

/** Each line without its end; what follows the last one too, unless there is nothing. @throws NodeJS.ErrnoException. */
export async function* fileLines(path: string): AsyncGenerator<string> {
  let parts: Buffer[] = []
  for await (const chunk of createReadStream(path, { highWaterMark: READ }) as AsyncIterable<Buffer>) {
    let at = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, at)) {
      yield Buffer.concat([...parts, chunk.subarray(at, end)]).toString()
      parts = []
      at = end + 1
    }
    if (at < chunk.length) parts.push(chunk.subarray(at))
  }
  if (parts.length > 0) yield Buffer.concat(parts).toString()
}

/** Listings of many items as the body of an answer. */
import { Readable } from 'node:stream'
import { nextTurn } from '../event-loop/index.ts'

/** Characters of a part. An item goes whole, so a part may be longer by one. */
const PART_CHARS = 65_536

/**
 * JSON text of an array and what is around it, as a stream: `jsonListing('{"items":[', items, view, '],"total":7}')`. Parts of some 64 KiB are made as they
 * are asked for, each in a turn of its own: as one text, a listing of many or of large items would hold the event loop, and be in memory, in full.
 * @param show what stands for an item; it is asked when its part is made.
 */
export function jsonListing<T>(before: string, items: Iterable<T>, show: (item: T) => unknown, behind: string): Readable {
  return Readable.from(parts(before, items, show, behind), { objectMode: false })
}

async function* parts<T>(before: string, items: Iterable<T>, show: (item: T) => unknown, behind: string): AsyncGenerator<string> {
  let text = before
  let comma = ''
  for (const item of items) {
    text += comma + JSON.stringify(show(item))
    comma = ','
    if (text.length < PART_CHARS) continue
    yield text
    text = ''
    await nextTurn()
  }
  yield text + behind
}

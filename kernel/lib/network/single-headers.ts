/** Headers that say who calls and for which namespace: of two, a proxy may have looked at one and the server at the other. */
import { SvcError } from '../errors/index.ts'

const SINGLE: ReadonlyMap<string, number> = new Map(['authorization', 'x-namespace', 'x-api-key', 'host', 'origin'].map((name, i) => [name, 1 << i]))
/** A bit for each length that one of them has: most names are passed over without being looked at. */
const LENGTHS = [...SINGLE.keys()].reduce((bits, { length }) => bits | (1 << length), 0)
const LONGEST = Math.max(...[...SINGLE.keys()].map(({ length }) => length))

/** @param raw names and values in turn, as they came. @throws BAD_REQUEST naming the header, also when its values are the same. */
export function refuseDuplicates(raw: readonly string[]): void {
  let seen = 0
  for (let i = 0; i < raw.length; i += 2) {
    const { length } = raw[i]
    if (length > LONGEST || (LENGTHS & (1 << length)) === 0) continue
    const name = raw[i].toLowerCase()
    const bit = SINGLE.get(name)
    if (bit === undefined) continue
    if ((seen & bit) !== 0) throw new SvcError('BAD_REQUEST', `cannot read header "${name}": the request has it more than once; send it once`)
    seen |= bit
  }
}

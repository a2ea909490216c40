/** Statements at work in DuckDB at once: whose turn it is, and how long it lasts. */
import { setImmediate as turn } from 'node:timers/promises'
import { ownedBy } from 'svcdb/lib/event-loop'
import t from 'tap'
import { Places } from '../../common/places.ts'
import { StatementPlace } from './statement-place.ts'

/** Calls that end when they are told to. */
class Calls {
  readonly begun: string[] = []
  private readonly ends = new Map<string, () => void>()

  during(place: StatementPlace, name: string): Promise<void> {
    return ownedBy(name[0], () =>
      place.during(() => {
        this.begun.push(name)
        return new Promise<void>((resolve) => this.ends.set(name, resolve))
      }),
    )
  }

  async end(name: string): Promise<void> {
    this.ends.get(name)?.()
    await turn()
  }
}

t.test('a namespace waits for itself, whatever has a place goes on before what waits, and leaves it in the end', async (t) => {
  const places = new Places(2, 1)
  const [first, second, other] = [1, 2, 3].map(() => new StatementPlace(places, undefined))
  const calls = new Calls()
  void calls.during(first, 'a1')
  const waits = calls.during(second, 'a2')
  void calls.during(other, 'b')
  await turn()
  t.same(calls.begun, ['a1', 'b'])
  await calls.end('a1')
  void calls.during(first, 'a1, next call')
  await turn()
  t.same(calls.begun, ['a1', 'b', 'a1, next call'])
  await calls.end('a1, next call')
  first.leave()
  first.leave()
  await turn()
  t.equal(calls.begun.at(-1), 'a2')
  await calls.end('a2')
  await waits
})

t.test('a reader that does not come back leaves its place to others', async (t) => {
  const places = new Places(1, 1)
  const slow = new StatementPlace(places, undefined)
  await slow.during(async () => {})
  t.equal(await new StatementPlace(places, undefined).during(async () => 'done'), 'done')
  t.equal(await slow.during(async () => 'next'), 'next')
})

t.test('who waits ends with its signal, and has no place then', async (t) => {
  const places = new Places(1, 1)
  const has = new StatementPlace(places, undefined)
  await has.during(async () => {})
  const end = new AbortController()
  const waits = new StatementPlace(places, end.signal).during(async () => {})
  end.abort(new Error('too late'))
  await t.rejects(waits, { message: 'too late' })
  has.leave()
  t.equal(places.taken, 0)
})

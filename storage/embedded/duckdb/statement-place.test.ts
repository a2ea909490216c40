/** Statements at work in DuckDB at once: whose turn it is, and how long it lasts. */
import { setImmediate as turn } from 'node:timers/promises'
import { ownedBy } from 'svcdb/lib/event-loop'
import t from 'tap'
import { Places } from '../../common/places.ts'
import { StatementPlace } from './statement-place.ts'
import { StatementRoom } from './statement-room.ts'

/** Of which statements have taken nothing. */
const EMPTY = new StatementRoom(1000, async () => 0)

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
  const [first, second, other] = [1, 2, 3].map(() => new StatementPlace(places, new Places(1, 1), EMPTY, undefined))
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
  const slow = new StatementPlace(places, new Places(1, 1), EMPTY, undefined)
  await slow.during(async () => {})
  t.equal(await new StatementPlace(places, new Places(1, 1), EMPTY, undefined).during(async () => 'done'), 'done')
  t.equal(await slow.during(async () => 'next'), 'next')
})

t.test('who waits ends with its signal, and has no place then', async (t) => {
  const places = new Places(1, 1)
  const has = new StatementPlace(places, new Places(1, 1), EMPTY, undefined)
  await has.during(async () => {})
  const end = new AbortController()
  const waits = new StatementPlace(places, new Places(1, 1), EMPTY, end.signal).during(async () => {})
  end.abort(new Error('too late'))
  await t.rejects(waits, { message: 'too late' })
  has.leave()
  t.equal(places.taken, 0)
})

t.test('from half of the memory on a namespace waits for its own jobs, and no other does', async (t) => {
  let used = 0
  const room = new StatementRoom(1000, async () => used)
  const places = new Places(8, 2)
  const job = new AbortController()
  const place = (signal?: AbortSignal): StatementPlace => new StatementPlace(places, new Places(1, 1), room, signal)
  const done = async (): Promise<string> => 'done'
  const first = place(job.signal)
  const second = place()
  await ownedBy('a', () => first.during(done))
  await ownedBy('a', () => second.during(done))
  used = 501
  const late = new AbortController()
  const ends = ownedBy('a', () => place(late.signal).during(done))
  const third = place()
  let begun = false
  const waits = ownedBy('a', () =>
    third.during(async () => {
      begun = true
    }),
  )
  const other = place()
  t.equal(await ownedBy('b', () => other.during(done)), 'done', 'another namespace')
  const nobodys = [place(), place()]
  t.same(await Promise.all(nobodys.map((one) => one.during(done))), ['done', 'done'], 'where namespaces are not kept apart')
  first.leave()
  const next = place(job.signal)
  t.equal(await ownedBy('a', () => next.during(done)), 'done', 'the next statement of a job')
  t.equal(await ownedBy('a', () => second.during(done)), 'done', 'the next call of a statement')
  late.abort(new Error('too late'))
  await t.rejects(ends, { message: 'too late' })
  other.leave()
  next.leave()
  await turn()
  t.notOk(begun, 'what another has ended')
  room.end(job.signal)
  room.end(job.signal)
  await turn()
  t.notOk(begun, 'the memory is still short')
  used = 500
  second.leave()
  await waits
  t.ok(begun)
  for (const one of [third, ...nobodys]) one.leave()
  t.equal(places.taken, 0)
})

t.test('more than a few jobs of a namespace wait from an eighth on, and the last one goes on whatever is used', async (t) => {
  let used = 0
  const room = new StatementRoom(1000, async () => used)
  const places = new Places(8, 8)
  const all = Array.from({ length: 5 }, () => new StatementPlace(places, new Places(1, 1), room, undefined))
  const begin = (place: StatementPlace): Promise<string> => ownedBy('a', () => place.during(async () => 'done'))
  for (const one of all.slice(0, 3)) await begin(one)
  used = 125
  t.equal(await begin(all[3]), 'done')
  used = 126
  let begun = false
  const waits = begin(all[4]).then(() => {
    begun = true
  })
  await turn()
  t.notOk(begun)
  used = 1000
  for (const one of all.slice(0, 3)) one.leave()
  await turn()
  t.notOk(begun)
  all[3].leave()
  await waits
  all[4].leave()
  t.equal(places.taken, 0)
})

/** What is retired stays exactly as long as a snapshot, or a lease, has it; and jobs that hold much are ended. */
import t from 'tap'
import { Shared } from '../shared-header.ts'
import { SnapshotPin, SnapshotPins } from '../snapshot-pins.ts'
import { WorkerState } from '../state.ts'
import { Readers } from './readers.ts'

const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const STEPS = 4000
const JOBS = 5

function random(seed: number): (n: number) => number {
  let state = seed | 0 || 1
  return (n) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return ((state ^ (state >>> 12)) >>> 0) % n
  }
}

interface Source {
  kind: 'memory' | 'files'
  since: number
  until: number
  done: boolean
}

t.test(`random lives of jobs, leases, memtables and segments (seed ${SEED})`, (t) => {
  const pick = random(SEED)
  const pins = new SnapshotPins(JOBS)
  const readers = new Readers(pins)
  // Numbers of events go round.
  let event = pick(2) === 0 ? 0 : 0x7fffff00
  let live: Source[] = []
  const gone: Source[] = []
  const jobs: { id: number; pin: SnapshotPin | undefined; seen: Set<Source>; stalled: boolean }[] = []
  const leases: { from: number; give: () => void; seen: Set<Source> }[] = []
  const left: number[] = []
  let cutOff = 0
  const held = (source: Source): boolean =>
    jobs.some(({ pin, seen }) => pin !== undefined && seen.has(source)) || (source.kind === 'files' && leases.some(({ seen }) => seen.has(source)))
  for (let step = 0; step < STEPS; step++) {
    switch (pick(10)) {
      case 0:
      case 1:
        event = (event + 1) | 0
        live.push({ kind: pick(2) === 0 ? 'memory' : 'files', since: event, until: 0, done: false })
        break
      case 2:
      case 3: {
        if (live.length === 0) break
        const source = live[pick(live.length)]
        live = live.filter((one) => one !== source)
        event = (event + 1) | 0
        source.until = event
        gone.push(source)
        readers.afterUnread(source.kind, source, 1, () => {
          source.done = true
        })
        break
      }
      case 4:
        if (jobs.length < JOBS * 2) jobs.push({ id: readers.begin(), pin: undefined, seen: new Set(), stalled: false })
        break
      case 5: {
        const waiting = jobs.find(({ pin }) => pin === undefined)
        if (waiting === undefined || jobs.filter(({ pin }) => pin !== undefined).length >= JOBS) break
        waiting.pin = new SnapshotPin(pins.words, readers.start(waiting.id, { end: () => left.push(waiting.id), stalled: () => waiting.stalled }))
        break
      }
      case 6: {
        // A first snapshot, or a later one beside it; now and then one that was too late.
        const job = jobs[pick(jobs.length || 1)]
        if (job?.pin === undefined) break
        const tooLate = job.pin.take(event)
        if (pick(4) === 0) tooLate()
        else for (const source of live) job.seen.add(source)
        break
      }
      case 7: {
        const [job] = jobs.splice(pick(jobs.length || 1), 1)
        if (job === undefined) break
        job.pin?.release()
        readers.end(job.id)
        break
      }
      case 8:
        leases.push({ from: event, give: readers.lease(event), seen: new Set(live) })
        break
      case 9: {
        const [lease] = leases.splice(pick(leases.length || 1), 1)
        lease?.give()
        if (pick(10) === 0) {
          // What a cut would leave is what it says, once all that were told have ended.
          const limit = pick(4)
          cutOff += readers.cut(limit)
          for (const id of left.splice(0)) {
            const at = jobs.findIndex((job) => job.id === id)
            if (at < 0) continue
            jobs[at].pin?.release()
            jobs.splice(at, 1)
            readers.end(id)
          }
          const memory = gone.filter((source) => source.kind === 'memory' && !source.done).length
          if (memory > limit) {
            t.fail(`step ${step}: ${memory} are held, ${limit} are allowed`)
            return t.end()
          }
        }
      }
    }
    if (jobs.length > 0 && pick(5) === 0) jobs[pick(jobs.length)].stalled = pick(2) === 0
    const working = gone.filter(
      (source) => source.kind === 'memory' && jobs.some(({ pin, stalled, seen }) => pin !== undefined && !stalled && seen.has(source)),
    )
    if (readers.workingBytes < working.length) {
      t.fail(`step ${step}: ${working.length} are held by jobs at work, not ${readers.workingBytes}`)
      return t.end()
    }
    for (const source of gone)
      if (held(source) && source.done) {
        t.fail(`step ${step}: given back while it was read`)
        return t.end()
      }
  }
  for (const { give } of leases) give()
  for (const { id, pin } of jobs) {
    pin?.release()
    readers.end(id)
  }
  t.ok(gone.length > 100 && gone.every(({ done }) => done), `all ${gone.length} were given back in the end`)
  t.ok(cutOff > 0, `${cutOff} jobs were cut`)
  t.equal(readers.count, 0)
  t.end()
})

t.test('a job holds what its snapshot has, and nothing that came later or was gone before', (t) => {
  const readers = new Readers(new SnapshotPins(2))
  const given: string[] = []
  const retire = (name: string, since: number, until: number): void => readers.afterUnread('memory', { since, until }, 1, () => given.push(name))
  const first = readers.begin()
  const queued = readers.begin()
  const pin = new SnapshotPin(readers.pins.words, readers.start(first))
  retire('before its snapshot', 1, 2)
  pin.take(5)
  retire('in its snapshot', 3, 6)
  retire('later than its snapshot', 6, 7)
  t.same(given, ['before its snapshot', 'later than its snapshot'])
  pin.release()
  t.equal(given.length, 2, 'until its thread has let go of it')
  readers.end(first)
  t.equal(given.length, 3)
  readers.end(queued)
  t.throws(() => pin.take(9), { message: /job has ended/ }, 'its place may be another one by now')
  t.end()
})

t.test('memory goes while files stay, when nothing is read of memtables any more', (t) => {
  const readers = new Readers(new SnapshotPins(1))
  const given: string[] = []
  const job = readers.begin()
  const pin = new SnapshotPin(readers.pins.words, readers.start(job))
  pin.take(5)
  pin.releaseMemtables()
  readers.afterUnread('memory', { since: 1, until: 6 }, 1, () => given.push('memory'))
  readers.afterUnread('files', { until: 6 }, 0, () => given.push('files'))
  t.same(given, ['memory'])
  readers.end(job)
  t.same(given, ['memory', 'files'])
  t.end()
})

t.test('who waits for all that read does not wait for those that come later', (t) => {
  const readers = new Readers(new SnapshotPins(1))
  const [first, second] = [readers.begin(), readers.begin()]
  let done = false
  readers.afterAll(() => (done = true))
  readers.begin()
  readers.end(second)
  t.notOk(done)
  readers.end(first)
  t.ok(done)
  t.end()
})

t.test('the oldest snapshots go first, each is told once, and what is within the limit stays', (t) => {
  const readers = new Readers(new SnapshotPins(3))
  const told: number[] = []
  const pins = [0, 1, 2].map((i) => {
    const pin = new SnapshotPin(readers.pins.words, readers.start(readers.begin(), { end: () => told.push(i), stalled: () => false }))
    pin.take(i * 10 + 5)
    return pin
  })
  for (let i = 0; i < 3; i++) readers.afterUnread('memory', { since: i * 10, until: i * 10 + 10 }, 100, () => {})
  t.equal(readers.cut(300), 0)
  t.equal(readers.cut(200), 1)
  t.equal(readers.cut(200), 0)
  t.same(told, [0])
  t.equal(readers.cut(0), 2)
  t.same(told, [0, 1, 2])
  for (const pin of pins) pin.release()
  t.end()
})

t.test('jobs that wait for their callers go before older ones that are at work, and nobody waits for them', (t) => {
  const readers = new Readers(new SnapshotPins(3))
  const told: number[] = []
  const stalled = [false, true, false]
  const pins = [0, 1, 2].map((i) => {
    const pin = new SnapshotPin(readers.pins.words, readers.start(readers.begin(), { end: () => told.push(i), stalled: () => stalled[i] }))
    pin.take(i * 10 + 5)
    return pin
  })
  for (let i = 0; i < 3; i++) readers.afterUnread('memory', { since: i * 10, until: i * 10 + 10 }, 100, () => {})
  t.equal(readers.workingBytes, 200)
  t.equal(readers.cut(250), 1)
  t.same(told, [1])
  t.equal(readers.cut(100), 1)
  t.same(told, [1, 0])
  for (const pin of pins) pin.release()
  t.end()
})

t.test('a snapshot that comes too late is taken again', (t) => {
  const shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  const readers = new Readers(new SnapshotPins(1))
  const state = new WorkerState(shared)
  const pin = new SnapshotPin(readers.pins.words, readers.start(readers.begin()))
  const take = pin.take.bind(pin)
  let given = false
  const drop = (): void => {
    const until = Atomics.add(shared, Shared.EVENTS, 1) + 1
    readers.afterUnread('memory', { since: 0, until }, 1, () => {
      given = true
    })
  }
  // The main thread acts in the moments around the note.
  pin.take = (event) => {
    drop()
    return take(event)
  }
  t.equal(state.snapshotNow(pin), undefined)
  t.ok(given, 'it was given back before the snapshot was noted')
  given = false
  state.applied++
  pin.take = (event) => {
    const tooLate = take(event)
    drop()
    return tooLate
  }
  t.equal(state.snapshotNow(pin), undefined)
  t.notOk(given, 'noted before: it is held, though the snapshot is not used')
  state.applied++
  pin.take = take
  t.ok(state.snapshotNow(pin))
  t.end()
})

t.test('a job has begun from its first snapshot on until its slot is given to another', async (t) => {
  const pins = new SnapshotPins(1)
  const slot = pins.assign()
  t.notOk(pins.begun(slot))
  const pin = new SnapshotPin(pins.words, slot)
  const tooLate = pin.take(1)
  t.ok(pins.begun(slot))
  tooLate()
  t.ok(pins.begun(slot), 'it looks again in the same turn')
  pin.take(2)
  pin.release()
  t.ok(pins.begun(slot), 'it has ended, and the main thread does not know')
  pins.leave(slot)
  t.equal(pins.assign(), slot)
  t.notOk(pins.begun(slot))
})

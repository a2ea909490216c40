import { EventEmitter } from 'node:events'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { BodyMemory } from './body-memory.ts'

t.test('one that has all leaves the others half of it, and together they have less than twice as much', (t) => {
  const memory = new BodyMemory(1024)
  const all = memory.open('a')
  all.take(1024)
  t.throws(() => memory.open('a').take(1), { code: 'BACKPRESSURE', message: /server\.max_body_memory/ })
  t.throws(() => memory.open('b').take(513), { code: 'BACKPRESSURE' })
  memory.open('b').take(512)
  memory.open('c').take(256)
  memory.open('d').take(128)
  t.throws(() => memory.open('d').take(1), { code: 'BACKPRESSURE' })
  t.equal(memory.total, 1920)
  all.answered()
  t.equal(memory.total, 896)
  memory.open('d').take(1)
  t.end()
})

t.test('a body that is the only one is taken, however small the capacity', (t) => {
  const memory = new BodyMemory(100)
  const hold = memory.open('a')
  hold.take(60)
  hold.take(600)
  t.throws(() => memory.open('a').take(1), { code: 'BACKPRESSURE' })
  hold.answered()
  memory.open('a').take(1)
  t.equal(memory.total, 1)
  t.end()
})

t.test('what a hold has is given back when its handler has ended and nobody waits, in either order', (t) => {
  const memory = new BodyMemory(1024)
  const first = memory.open('a')
  first.take(100)
  first.begin()
  first.answered()
  t.equal(memory.total, 100, 'the handler is at it')
  t.throws(() => first.take(1), { code: 'BAD_REQUEST' }, 'nobody waits for more')
  first.end()
  t.equal(memory.total, 0)
  const second = memory.open('a')
  second.take(100)
  second.begin()
  second.end()
  t.equal(memory.total, 100, 'the answer is not sent')
  second.answered()
  second.answered()
  t.equal(memory.total, 0)
  t.throws(() => second.begin(), { code: 'BAD_REQUEST' }, 'its body is counted no more')
  const third = memory.open('a')
  third.take(100)
  for (let i = 0; i < 2; i++) third.begin()
  third.answered()
  third.end()
  t.equal(memory.total, 100, 'another is at it')
  third.end()
  t.equal(memory.total, 0)
  t.end()
})

t.test('a connection that closes gives back what all of its requests have, by one listener', (t) => {
  const memory = new BodyMemory(1024)
  const connection = new EventEmitter() as EventEmitter & { destroyed?: boolean }
  for (let i = 0; i < 20; i++) memory.open('a', connection).take(10)
  t.equal(connection.listenerCount('close'), 1)
  const working = memory.open('a', connection)
  working.begin()
  working.take(1)
  connection.destroyed = true
  t.throws(() => memory.open('a', connection).take(1), { code: 'BAD_REQUEST' }, 'its close may have been told already')
  connection.emit('close')
  t.equal(memory.total, 1)
  working.end()
  t.equal(memory.total, 0)
  t.end()
})

t.test('a connection has no more to do with what was given back: it may have thousands of requests', (t) => {
  const connection = new EventEmitter()
  const hold = new BodyMemory(1024).open('a', connection)
  hold.take(10)
  hold.give(10)
  connection.emit('close')
  t.equal(hold.ended(), undefined)
  t.end()
})

t.test('the bounds hold whatever happens, and nothing is left', (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const capacity = 1000
  const memory = new BodyMemory(capacity)
  const open = () => ({
    ...{ namespace: `n${below(12)}`, users: 0, over: false },
    connection: Object.assign(new EventEmitter(), { destroyed: false }),
  })
  let holds: (ReturnType<typeof open> & { hold: ReturnType<BodyMemory['open']> })[] = []
  for (let i = 0; i < 20_000; i++) {
    if (holds.length < 40) {
      const made = open()
      holds.push({ ...made, hold: memory.open(made.namespace, made.connection) })
    }
    const each = holds[below(holds.length)]
    const { hold, namespace } = each
    const what = below(12)
    if (what < 7 && !each.over) {
      const bytes = Math.min(1 + below(200), capacity - hold.bytes)
      const own = holds.reduce((sum, other) => (other.namespace === namespace ? sum + other.hold.bytes : sum), 0)
      const share = capacity - (memory.total - own) / 2
      if (share <= 0) t.fail('a namespace has no share')
      try {
        if (bytes > 0) hold.take(bytes)
      } catch (error) {
        if (own + bytes <= share) t.fail(`refused with ${own} + ${bytes} of ${share}: ${error}`)
      }
    } else if (what === 7) hold.give(below(hold.bytes + 1))
    else if (what === 8 && !each.over) {
      hold.begin()
      each.users++
    } else if (what === 9 && each.users > 0) {
      hold.end()
      each.users--
    } else if (what >= 10 && !each.over) {
      each.over = true
      if (what === 10) hold.answered()
      else each.connection.emit('close')
    }
    if (memory.total >= 2 * capacity) t.fail(`${memory.total} bytes`)
    if (memory.total !== holds.reduce((sum, other) => sum + other.hold.bytes, 0)) t.fail('the total is not the sum')
    if (each.over && each.users === 0 && hold.bytes > 0) t.fail('something is left')
    holds = holds.filter((other) => !other.over || other.users > 0)
  }
  for (const { hold, users, over } of holds) {
    for (let i = 0; i < users; i++) hold.end()
    if (!over) hold.answered()
  }
  t.equal(memory.total, 0)
  t.end()
})

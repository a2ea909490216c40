import t from 'tap'
import { BoundedTable } from './bounded-table.ts'
import { Lockout, type LockoutOptions } from './lockout.ts'

const HOUR = 3_600_000
const lockout = (options: Partial<LockoutOptions> = {}) => new Lockout({ maxFailures: 3, lockoutMs: 10_000, maxTracked: 100, ...options })

t.test('so many failures within an hour bring a ban, which ends by itself', async (t) => {
  const one = lockout()
  t.equal(one.failed('a', 0), undefined)
  t.equal(one.failed('a', 10), undefined)
  t.equal(one.failed('b', 10), undefined, 'each for itself')
  t.equal(one.find('a', 10), undefined)
  t.same(one.failed('a', 20), { caller: 'a', failures: 3, until: 10_020 })
  t.match(one.find('a', 10_019), { caller: 'a' })
  t.equal(one.find('b', 20), undefined)
  t.equal(one.failed('a', 5000), undefined, 'what was under way does not make it longer')
  t.equal(one.find('a', 10_020), undefined)
  t.equal(one.banned(10_020), 0)
  t.equal(one.failed('a', 10_021), undefined, 'and the count begins anew')
  t.equal(one.failed('a', 10_022), undefined)
  t.match(one.failed('a', 10_023), { until: 20_023 })
})

t.test('failures further apart than an hour do not add up', async (t) => {
  const one = lockout()
  for (let i = 0; i < 50; i++) t.equal(one.failed('a', i * (HOUR / 2)), undefined)
  const two = lockout()
  two.failed('a', 0)
  two.failed('a', HOUR - 2)
  t.match(two.failed('a', HOUR - 1), { failures: 3 }, 'the hour slides')
})

t.test('where there is no room for one ban more, a caller takes no more memory the longer it goes on', async (t) => {
  const one = lockout({ maxTracked: 1 })
  for (let i = 0; i < 3; i++) one.failed('a', 0)
  for (let i = 0; i < 1000; i++)
    if (i > 1) t.equal(one.failed('b', i), 'full')
    else one.failed('b', i)
  t.match(one.failed('b', 10_000), { caller: 'b', failures: 4 }, 'the last that are needed')
})

t.test('a success clears the count, and an operator lifts a ban', async (t) => {
  const one = lockout()
  one.failed('a', 0)
  one.failed('a', 0)
  one.succeeded('a')
  t.equal(one.failing, 0)
  t.equal(one.failed('a', 1), undefined)
  one.failed('a', 1)
  t.match(one.failed('a', 1), { caller: 'a' })
  t.ok(one.lift('a'))
  t.notOk(one.lift('a'))
  t.equal(one.find('a', 2), undefined)
})

t.test('one failure is enough where it is set so', async (t) => {
  t.match(lockout({ maxFailures: 1 }).failed('a', 5), { failures: 1 })
})

t.test('many addresses neither fill the memory nor lift a ban', async (t) => {
  const one = lockout()
  for (let i = 0; i < 3; i++) one.failed('victim', 0)
  for (let i = 0; i < 10_000; i++) one.failed(`other ${i}`, 1)
  t.equal(one.failing, 100)
  t.match(one.find('victim', 2), { caller: 'victim' })
  let full = 0
  for (let i = 0; i < 500; i++) for (let n = 0; n < 3; n++) if (one.failed(`banned ${i}`, 3) === 'full') full++
  t.equal(one.banned(3), 100)
  t.equal(full, 401)
  t.match(one.find('victim', 4), { caller: 'victim' })
  t.equal(one.find('banned 400', 4), undefined)
  t.equal(one.banned(10_003), 0)
  t.match(one.failed('banned 499', 10_003), { caller: 'banned 499' }, 'there is room again')
})

t.test('a list in parts', async (t) => {
  const one = lockout({ maxFailures: 1 })
  for (let i = 0; i < 5; i++) one.failed(`a${i}`, i * 1000)
  t.same(
    one.list(10_500, 0, 2).map(({ caller }) => caller),
    ['a1', 'a2'],
  )
  t.same(
    one.list(10_500, 2, 10).map(({ caller }) => caller),
    ['a3', 'a4'],
  )
})

t.test('what is over an hour old is swept', async (t) => {
  const one = lockout()
  one.failed('a', 0)
  one.failed('b', 1000)
  t.same([...one.sweep(HOUR)], [])
  t.equal(one.failing, 1)
})

t.test('a table that is full forgets what was added first', async (t) => {
  const table = new BoundedTable<number>(3)
  const model = new Map<string, number>()
  for (let i = 0; i < 1000; i++) {
    const key = `k${(i * 7919) % 11}`
    if (i % 5 === 0) {
      t.equal(table.delete(key), model.delete(key))
      continue
    }
    if (!model.has(key) && model.size >= 3) model.delete(model.keys().next().value as string)
    table.set(key, i)
    model.set(key, i)
    if (i % 97 === 0) {
      t.same([...table.sweep((value) => value % 2 === 0)], [])
      for (const [name, value] of model) if (value % 2 === 0) model.delete(name)
    }
    t.equal(table.size, model.size)
    for (let n = 0; n < 11; n++) if (table.get(`k${n}`) !== model.get(`k${n}`)) t.fail(`k${n} at step ${i}`)
  }
})

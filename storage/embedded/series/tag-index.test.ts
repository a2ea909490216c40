/** Tags by value, and the series view that keeps them, against looking at every series. */

import type { Matcher } from 'svcdb'
import t from 'tap'
import { compileMatchers } from '../../common/matchers.ts'
import { Random } from '../../conformance/random.ts'
import { SeriesTimes } from '../memtable/series-times.ts'
import { SelectedTags } from '../read/samples/tag-sets.ts'
import { admitted, ref } from '../testing/series.ts'
import { Shared } from '../threads/shared-header.ts'
import { SeriesIndex } from './series-index.ts'
import { SeriesView } from './series-view.ts'
import type { TagIndex } from './tag-index.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

class Fixture {
  readonly shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  readonly view = new SeriesView(this.shared)
  readonly index = new SeriesIndex(this.shared, 1_000_000, () => this.view.setArrays(this.index.arrays()))

  constructor() {
    this.view.setArrays(this.index.arrays())
  }

  add(measurement: number, tags: Record<string, string>): number {
    const series = admitted(this.index, ref(measurement), Object.entries(tags).flat())
    this.index.publish(series)
    return series
  }

  release(...series: number[]): void {
    this.view.release(this.index.release(Int32Array.from(series)))
  }

  tagIndex(key: string): TagIndex {
    return this.view.index(1, this.view.keySymbol(1, key)) as TagIndex
  }
}

const shown = (positions: Int32Array | undefined) => (positions === undefined ? 'all' : [...positions])

t.test('series of a value: listed ones and those that came later', async (t) => {
  const db = new Fixture()
  const hosts = (from: number, to: number) => {
    for (let i = from; i < to; i++) db.add(1, { host: `h${i % 3}`, i: `${i}` })
  }
  const symbol = (text: string) => db.index.symbols.symbolOf(text)
  hosts(0, 30)
  const first = db.tagIndex('host')
  const code = first.codeOfSymbol(symbol('h1'))
  const every = (to: number) => Array.from({ length: to }, (_, i) => i).filter((i) => i % 3 === 1)
  t.same(shown(first.withCode(code)), every(30))
  t.ok(first.count(code) >= 10)
  hosts(30, 3000)
  t.equal(db.tagIndex('host'), first, 'the same index')
  t.same(shown(first.withCode(code)), every(3000), 'made into lists')
  hosts(3000, 3100)
  t.same(shown(db.tagIndex('host').withCode(code)), every(3100), 'and those after the lists')
  t.ok(first.count(code) >= every(3100).length)
  db.add(1, { host: 'new' })
  t.same(shown(db.tagIndex('host').withCode(first.codeOfSymbol(symbol('new')))), [3100], 'a value that no list has')
  t.equal(first.codeOfSymbol(symbol('i')), -1, 'a text that is no value of this tag')
})

t.test('patterns of a statement together have the time that there is for conditions', (t) => {
  const db = new Fixture()
  for (const host of ['a1', 'b1', 'a2']) db.add(1, { host, same: 'x' })
  const view = new SeriesView(db.shared, 300)
  view.setArrays(db.index.arrays())
  const patterns = [
    { key: view.keySymbol(1, 'host'), like: 'a' },
    { key: view.keySymbol(1, 'same'), like: 'x' },
  ]
  const slow = (like: string) => (text: string) => {
    const end = performance.now() + 110
    while (performance.now() < end);
    return text.includes(like)
  }
  const found = (matcher: typeof slow) => [...view.withTagsLike(1, view.of(1), patterns, matcher)]
  t.throws(() => found(slow), { code: 'SQL_ERROR', message: /patterns of LIKE take too long .* database.regex_timeout_ms$/ })
  // What is known of the first is not looked for again, and the second is the first now.
  t.same(found(slow), [0, 2])
  t.end()
})

t.test('a condition is put to each value once', async (t) => {
  const db = new Fixture()
  const asked: string[] = []
  const passing = () =>
    db.tagIndex('host').passing('x', (values) => {
      asked.push(...values)
      return Uint8Array.from(values, (value) => (value === 'b' ? 1 : 0))
    })
  for (const host of ['a', 'b', 'a']) db.add(1, { host, n: `${db.index.count}` })
  t.same([...passing()], [0, 1])
  db.add(1, { host: 'c' })
  t.same([...passing()], [0, 1, 0])
  t.same([...passing()], [0, 1, 0])
  t.same(asked, ['a', 'b', 'c'])
})

t.test('equality and regular expressions of the same letters are told apart', async (t) => {
  const db = new Fixture()
  for (const host of ['~a', 'a', 'b']) db.add(1, { host })
  const select = (op: Matcher['op'], value: string) => shown(db.view.positions(1, [{ tag: 'host', op, value }]))
  for (let again = 0; again < 2; again++) {
    t.same(select('=', '~a'), [0])
    t.same(select('=~', 'a'), [1])
    t.same(select('!=', '~a'), [1, 2])
    t.same(select('!~', 'a'), [0, 2])
  }
})

t.test('positions are those of the list they are asked for, whatever came since', async (t) => {
  const db = new Fixture()
  for (let i = 0; i < 10; i++) db.add(1, { host: i % 2 === 0 ? 'a' : 'b', i: `${i}` })
  const list = db.view.of(1)
  for (let i = 10; i < 20; i++) db.add(1, { host: i % 2 === 0 ? 'a' : 'b', i: `${i}` })
  t.same(shown(db.view.positions(1, [{ tag: 'host', op: '=', value: 'a' }], list)), [0, 2, 4, 6, 8])
  t.same(shown(db.view.positions(1, [{ tag: 'host', op: '=~', value: 'a|x' }], list)), [0, 2, 4, 6, 8])
  t.same(shown(db.view.positions(1, [{ tag: 'i', op: '=', value: '15' }], list)), [])
  t.equal(db.view.select(1, [{ tag: 'host', op: '=', value: 'a' }]).length, 10, 'the list of now')
})

t.test('tags of a selection stay those of its series', async (t) => {
  const db = new Fixture()
  const numbers = Array.from({ length: 6 }, (_, i) => db.add(1, i === 1 ? { rare: 'x' } : { host: `h${i}` }))
  const list = db.view.of(1)
  const positions = Int32Array.of(1, 3, 5)
  const whole = new SelectedTags(db.view, 1, list, undefined)
  const some = new SelectedTags(
    db.view,
    1,
    positions.map((position) => list[position]),
    positions,
  )
  const told = (tags: SelectedTags) => {
    const columns = ['host', 'rare', 'none'].map((key) => ({ key, column: tags.column(key) }))
    return Array.from({ length: tags.length }, (_, i) => {
      const by = columns.flatMap(({ key, column }) => (column.codes[i] < 0 ? [] : [key, column.texts[column.codes[i]]]))
      t.same(by, tags.at(i))
      return by.join('=')
    })
  }
  const before = [told(whole), told(some)]
  t.same(before[1], ['rare=x', 'host=h3', 'host=h5'])
  db.add(1, { host: 'later' })
  t.same([told(whole), told(some)], before, 'after series were added')
  db.release(numbers[0], numbers[1])
  t.same([told(whole), told(some)], before, 'after series were given back')
  t.ok(whole.keys().includes('rare'), 'also a key that no other series has')
  t.same(told(some.among(Int32Array.of(0, 2))), ['rare=x', 'host=h5'], 'and of a part of them')
  t.same(told(new SelectedTags(db.view, 1, db.view.of(1), undefined)), ['host=h2', 'host=h3', 'host=h4', 'host=h5', 'host=later'])
})

t.test(`random conditions over lists that grow and shrink, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  const db = new Fixture()
  const live = new Map<number, Record<string, string>>()
  const value = () => random.pick(['a', 'b', 'ab', '~a', 'ä', `v${random.below(40)}`])
  for (let round = 0; round < 60; round++) {
    for (let i = random.below(round % 10 === 0 ? 1500 : 60); i > 0; i--) {
      const tags: Record<string, string> = {}
      for (const key of ['host', 'dc', 'rack']) if (random.chance(0.7)) tags[key] = value()
      if (random.chance(0.5)) tags.n = `${random.below(5000)}`
      const measurement = random.chance(0.8) ? 1 : 2
      const number = db.add(measurement, tags)
      if (measurement === 1) live.set(number, tags)
    }
    if (random.chance(0.2)) {
      const gone = [...live.keys()].filter(() => random.chance(0.1))
      for (const number of gone) live.delete(number)
      db.release(...gone)
    }
    for (let i = 0; i < 8; i++) {
      const matchers = Array.from({ length: random.below(4) }, (): Matcher => {
        const op = random.pick(['=', '!=', '=~', '!~'] as const)
        return { tag: random.pick(['host', 'dc', 'rack', 'none']), op, value: random.pick(['', 'a', '~a', 'a|b', 'v1.*', '(a|)b', '.+', '.*', value()]) }
      })
      const test = compileMatchers(matchers)
      const expected = [...live].filter(([, tags]) => test((key) => tags[key])).map(([number]) => number)
      const found = [...db.view.select(1, matchers)]
      if (found.join() !== expected.join()) return t.same(found, expected, JSON.stringify(matchers))
    }
    const wanted = [value(), value(), 'b']
    const key = db.view.keySymbol(1, 'host')
    const listed = [...db.view.withTag(1, db.view.of(1), key, wanted)]
    t.same(
      listed,
      [...live].filter(([, tags]) => wanted.includes(tags.host)).map(([number]) => number),
    )
  }
})

t.test('a tag of more values than are looked at at once', async (t) => {
  const db = new Fixture()
  const values = 140_000
  for (let i = 0; i < values; i++) db.add(1, { host: `h${i}` })
  const select = (matcher: Matcher): number[] => [...db.view.select(1, [matcher])]
  t.same(select({ tag: 'host', op: '=~', value: '.*9999[0-4]' }), [99990, 99991, 99992, 99993, 99994])
  t.same(select({ tag: 'host', op: '=', value: 'h65536' }), [65536])
  for (let i = values; i < values + 3; i++) db.add(1, { host: `h1${i}` })
  t.same(select({ tag: 'host', op: '=~', value: '.*14000[0-4]' }), [values, values + 1, values + 2], 'the ones that came later')
  const sets = new SelectedTags(db.view, 1, Int32Array.of(7, 139_999), Int32Array.of(7, 139_999))
  const { codes, texts } = sets.column('host')
  t.same([texts.length, ...Array.from(codes, (code) => texts[code])], [2, 'h7', 'h139999'], 'of few series, no text of another')
  const all = new SelectedTags(db.view, 1, db.view.of(1), undefined).column('host')
  t.equal(all.texts.length, values + 3)
  t.equal(all.texts[all.codes[139_999]], 'h139999')
})

t.test('a series takes less than 400 bytes of the main thread', async (t) => {
  const db = new Fixture()
  const times = new SeriesTimes()
  const series = 150_000 // just above a size at which arrays have doubled
  for (let i = 0; i < series; i++) times.ensure(db.add(1, { host: `host_${i}`, dc: `dc${i % 100}`, region: `r${i % 10}` }))
  db.index.releaseProvisional(true)
  t.ok((db.index.memory + times.memory) / series < 400, `${(db.index.memory + times.memory) / series} bytes`)
})

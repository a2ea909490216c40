/** What a copy asks of the stores, whatever is in them. That it is whole is tested where there are two stores: storage/postgres/node.test.ts. */
import { loadEngine } from 'svcdb/testkit'
import t from 'tap'
import type { StateStore } from './state.ts'
import { copyState, type StateSide } from './state-copy.ts'

const LARGE = 300_000

t.test('large entries go in transactions that a store can take, small ones many at a time', async (t) => {
  const { createEngine } = await loadEngine('memory', '.')
  const [source, target] = [0, 1].map(() => createEngine({ config: {}, now: Date.now } as never))
  const values = new Map([...Array.from({ length: 60 }, (_, i): [string, string] => [`a/${i}`, 'x'.repeat(LARGE)]), ['b', 'y'.repeat(6 << 20)]])
  for (let i = 0; i < 1000; i++) values.set(`c/${i}`, `${i}`)
  await source.state('one').transaction((tx) => {
    for (const [key, value] of values) tx.put(key, value)
  })
  const written: number[] = []
  const counted = (state: StateStore): StateStore => ({
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    transaction: (body) =>
      state.transaction(async (tx) => {
        let bytes = 0
        const put = (key: string, value: unknown) => {
          bytes += JSON.stringify(value).length
          tx.put(key, value)
        }
        const given = await body({ get: (key) => tx.get(key), list: (range) => tx.list(range), put, delete: (key) => tx.delete(key) })
        written.push(bytes)
        return given
      }),
  })
  const side = (name: string, state: StateSide['state'], owners: string[]): StateSide => ({ name, state, owners: async () => owners })
  const from = side('from', (owner) => source.state(owner), ['one'])
  const to = side('to', (owner) => counted(target.state(owner)), [])
  t.same(await copyState(from, to), { owners: 1, entries: values.size })
  t.same(new Map((await target.state('one').list<string>()).map(({ key, value }) => [key, value])), values)
  t.same(
    written.filter((bytes) => bytes > 5 << 20).map((bytes) => bytes >> 20),
    [6],
    'more than that is one entry',
  )
  t.ok(written.length < 20, `${written.length} transactions`)
})

/** A change that takes several sends: where the first of them fail, and where the sink ends between two. */
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { FakeBrokers, sinkNode } from './testing.ts'

const ROWS = 1200
/** One write, and one change. @param first the text of the first row. */
const linesOf = (first: string) => Array.from({ length: ROWS }, (_, i) => `m s="${i === 0 ? first : 'y'}" ${i + 1}`).join('\n')

t.test('behind a part that could not be sent or kept no other part of the change is sent', async (t) => {
  const node = await sinkNode(t)
  const brokers = new FakeBrokers()
  let full = true
  const buried: Uint8Array[] = []
  const letters = {
    add: async ({ body }: { body: Uint8Array }) => {
      if (full) throw new Error('the disk is full')
      buried.push(body)
    },
    close: async () => {},
  }
  const sink = node.sink(brokers, { max_message_bytes: 2000 }, { letters })
  sink.start()
  await until('it is up', () => sink.status().up)
  await node.write(linesOf('x'.repeat(3000)))
  await until('it says why', () => typeof sink.status().status === 'object')
  t.equal(brokers.records.length, 0)
  full = false
  await until('it goes on', () => brokers.records.length === ROWS - 1)
  t.equal(buried.length, 1)
  t.equal(new Set(brokers.records.map(({ value }) => value)).size, ROWS - 1)
  await sink.stop()
})

t.test('a sink that ends within a change goes on with what of it was not sent', async (t) => {
  const node = await sinkNode(t)
  const [first, second] = [new FakeBrokers(), new FakeBrokers()]
  let failed = 0
  first.behave = async () => {
    if (first.records.length < 600) return 'take'
    failed++
    return 'fail'
  }
  const sink = node.sink(first, {}, { drainMs: 1 })
  sink.start()
  await until('it is up', () => sink.status().up)
  await node.write(linesOf('y'))
  await until('some of it is there', () => failed > 0)
  t.ok(first.records.length < ROWS, `${first.records.length} records`)
  await sink.stop()
  const again = node.sink(second)
  again.start()
  const all = () => new Set([...first.records, ...second.records].map(({ value }) => value))
  await until('the others come', () => all().size === ROWS)
  await again.stop()
  t.ok(second.records.length < ROWS, 'not all of it again: the position within the change was kept')
})

/** Rows whose last ones fill a batch: the one behind it is empty, and ends where they do. */
const FULL = 512

t.test('a change whose end fills a batch is not passed before brokers have it', async (t) => {
  const node = await sinkNode(t)
  const [first, second] = [new FakeBrokers(), new FakeBrokers()]
  const sink = node.sink(first, {}, { drainMs: 1 })
  sink.start()
  await until('it is up', () => sink.status().up)
  first.behave = () => new Promise(() => {})
  await node.write(linesOf('y').split('\n', FULL).join('\n'))
  await until('it is under way', () => sink.status().inFlight.messages > 0)
  await sink.stop()
  const again = node.sink(second)
  again.start()
  await until('all of it comes', () => second.records.length === FULL)
  await again.stop()
})

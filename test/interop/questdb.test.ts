/** QuestDB's clients: they ask for the versions of the line protocol, and take that which the server reads. In Python, a client of Prometheus reads it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, client, hasCompiler, lacking, lackingPython, PYTHON, runChecks } from './program.ts'

// Not typed here: the package is installed by `run` only.
const questdb = await import('@questdb/nodejs-client' as string).catch(() => undefined)
const skip = questdb === undefined ? 'the package is not installed' : false

test('the client for JavaScript negotiates, and its values arrive', { skip }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  const sender = await questdb.Sender.fromConfig(`http::addr=${new URL(node.url).host};`)
  // Whole seconds, which a number of JSON holds exactly.
  const at = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
  await sender
    .table('trades')
    .symbol('pair', 'ETH USD')
    .floatColumn('price', 2615.54)
    .intColumn('amount', 7)
    .stringColumn('note', 'a "b"')
    .booleanColumn('buy', true)
    .at(at, 'ns')
  await sender.flush()
  await sender.close()
  const rows = await node.arrived('trades', 1)
  assert.deepEqual(rows[0].tags, { pair: 'ETH USD' })
  assert.deepEqual(rows[0].fields, { price: 2615.54, amount: 7, note: 'a "b"', buy: true })
  assert.equal(BigInt(rows[0].timestamp), at)
})

test('the client for Python, and one of Prometheus', { skip: lackingPython('questdb-python') }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'promql'] })
  t.after(() => node.stop())
  await runChecks(t, PYTHON, [client('questdb_python.py'), node.url])
  assert.equal(await node.failed(), 2)
  const [{ timestamp, tags, fields }] = (await node.rows('trades')).filter(({ tags }) => tags.pair === 'ETH USD')
  assert.deepEqual([tags, fields], [{ pair: 'ETH USD' }, { price: 2615.54, amount: 7, note: 'a "b"', buy: true }])
  assert.equal(timestamp % 1e9, 0)
})

const JARS = 'questdb-java-jars'
const noJava = lacking('client of QuestDB for Java', JARS) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path')

test('the client for Java', { skip: noJava }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  await runChecks(t, 'java', ['-cp', `${cached(JARS)}/*`, client('QuestDbJava.java'), node.url])
  assert.equal(await node.failed(), 2)
  const [{ timestamp, fields }] = (await node.rows('java trades')).filter(({ tags }) => tags.pair === 'ETH,USD=1 x')
  assert.equal(timestamp % 1e9, 0)
  // The amount is beyond what a number of JSON holds exactly.
  assert.deepEqual(fields, { price: 2615.54, amount: 2 ** 63, note: 'a "b" \\c', buy: true })
  assert.equal((await node.rows('java_batches')).length, 10_000)
  assert.equal((await node.rows('java_retried')).length, 1)
})

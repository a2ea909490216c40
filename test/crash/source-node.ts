/**
 * A node with a source that is fed without end, for source.test.ts: `node source-node.ts <data directory> <first id>`. Each line of its output is the id
 * of a message that was acknowledged.
 */
import { writeSync } from 'node:fs'
import { definePlugin } from 'svcdb'
import { Source } from 'svcdb/lib/source'
import { Logs, resolveConfig, SvcNode } from 'svcdb/testkit'
import { SMALL } from './kill-loop.ts'

const [dataDir, first] = process.argv.slice(2)
/** Rows of a message: all or none of them. */
const ROWS = 3
const KEYS = 50

const feed = definePlugin({
  id: 'feed',
  summary: 'Feeds points without end',
  stability: 'beta',
  capabilities: ['points'],
  setup(svc) {
    const source = new Source<number>(svc, {
      name: 'feed',
      maxWrites: 2,
      maxMessages: 200,
      decode(id, batch) {
        const ref = batch.resolver.measurement(batch.namespace, 'fed')
        const table = batch.table(ref)
        const time = 1_700_000_000_000_000_000n + BigInt(id)
        for (let n = 0; n < ROWS; n++) {
          const series = batch.resolver.series(ref, ['key', String(id % KEYS), 'n', String(n)])
          const row = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(BigInt.asIntN(32, time >> 32n)), 0)
          table.column('id', 'float64').setF64(row, id)
        }
      },
    })
    svc.ready(() => {
      void (async () => {
        source.connected()
        for (let id = Number(first); !svc.stopping.aborted; id++) {
          const ack = () => void writeSync(1, `${id}\n`)
          await source.take({ body: id, bytes: 100, key: String(id % KEYS), ack })
        }
      })()
    })
  },
})

const tree = { plugins: [], server: { http_addr: '127.0.0.1:0' }, database: { ...SMALL, data_dir: dataDir } }
const config = await resolveConfig({ tree: tree as never, file: 'the test', folder: dataDir, overrides: new Map() }, { plugins: [feed] })
const node = new SvcNode(config, { logs: new Logs({ level: 'error', format: 'json', destination: { write() {} } }) })
await node.setup()
await node.start()
process.on('SIGTERM', () => void node.stop().then(() => process.exit(0)))

/** The conformance suite over ClickHouse. What comes between two steps of a rule is a restart of the node: all that it had in memory is gone. */
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { conformance, testContext } from '../conformance/index.ts'
import { ClickHouseEngine } from './engine.ts'

if (NO_CLICKHOUSE !== undefined) t.test('the storage interface over ClickHouse', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  let made = 0
  conformance(
    'clickhouse',
    async (config, now) => {
      const clickhouse = { ...server.section, prefix: `t${process.pid}_${made++}` }
      const begin = async (): Promise<ClickHouseEngine> => {
        const engine = new ClickHouseEngine(testContext({ ...config, clickhouse }, now))
        await engine.open()
        return engine
      }
      const subject = {
        engine: await begin(),
        async reopen() {
          await subject.engine.close()
          subject.engine = await begin()
          return subject.engine
        },
        settle: () => subject.engine.maintain(),
        dispose: () => subject.engine.close(),
      }
      return subject
    },
    { resolvesLate: true, lacks: ['state', 'changes'] },
  )
}

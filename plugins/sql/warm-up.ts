/** Runs statements that need no data through the whole path, beside the engine. Their texts differ: equal ones would be remembered, not parsed. */
import type { Job } from 'svcdb'
import { runSql } from './sql-job.ts'

const warmUp: Job<{ statements: number }, void> = async (reader, { statements }, io) => {
  const quiet = { signal: io.signal, emit: async () => {} }
  for (let i = 0; i < statements; i++) {
    const query = `SELECT table_name AS name, count(*) AS n, max(length(table_name)) FROM information_schema.tables WHERE table_name IN ('a', 'b') AND table_name <> 'warm-up ${i}' GROUP BY 1 ORDER BY 1 LIMIT 5`
    await runSql(reader, { namespace: '', query, maxRows: 10, format: 'json' }, quiet)
  }
}

export default warmUp

/** What flushes cost: CPU a row, of the process and of the thread that flushes, and bytes a row. */
import type { TestDatabase } from '../testing/engine-state.ts'

/** Fills the database and flushes it, so many times; prints a line for each. The database must hold one table. */
export async function measureFlushes(db: TestDatabase, flushes: number, fill: (flush: number) => void): Promise<void> {
  for (let flush = 0; flush < flushes; flush++) {
    fill(flush)
    const all = process.cpuUsage()
    const thread = process.threadCpuUsage()
    const [{ rows, bytes }] = await db.flush()
    const { user, system } = process.cpuUsage(all)
    const own = process.threadCpuUsage(thread)
    const nanoseconds = (micros: number): string => ((micros * 1000) / rows).toFixed(1)
    console.log(
      `${rows} rows, CPU ${nanoseconds(user + system)} ns/row, ${nanoseconds(own.user + own.system)} of it on this thread, ${(bytes / rows).toFixed(3)} bytes/row`,
    )
  }
}

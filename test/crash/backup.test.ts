/** The short form of `node test/crash/backup-loop.ts`. SVC_CRASH_BACKUPS and SVC_CRASH_SEED set the length and the seed. */
import t from 'tap'
import { backupLoop } from './backup-loop.ts'

t.setTimeout(600_000)
const { SVC_CRASH_BACKUPS = '1', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)

t.test('backups taken under load hold all that was acknowledged before, and nothing in part', async (t) => {
  const iterations = Number(SVC_CRASH_BACKUPS)
  const report = await backupLoop({ iterations, seed })
  t.comment(`seed ${seed}: ${report.backups} backups with ${report.points} points, ${report.kills} kills, slowest backup ${Math.round(report.slowestMs)} ms`)
  t.equal(report.backups, 2 * iterations)
  t.ok(report.points > 0 && report.acknowledged > 0)
})

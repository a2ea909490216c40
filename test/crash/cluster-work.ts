/**
 * For the loop of cluster.ts: work that writes down what it does, in the state store under its claim, and in a file of the node as what the node believes.
 *
 * State: `count/<work>` is how often its owners have written, `log/<work>/<n>` by which token; `turn/<schedule>/<turn>` a turn that was done, `twice/...` one that had been
 * done. File (`SVC_CLUSTER_FILE`): a line `<work> <token> <wall ms>` for a moment at which the node was sure to own it, `deaf <work>` for one at which it was not for the
 * second time and still not told to stop.
 */
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, type StateTransaction } from 'svcdb'

export const WORKS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
export const SCHEDULES = ['x', 'y', 'z']
const TURN_MS = 300
const PAUSE_MS = 60

export const logKey = (work: string, n: number): string => `log/${work}/${String(n).padStart(9, '0')}`

async function note(tx: StateTransaction, work: string, token: number): Promise<void> {
  const n = ((await tx.get<number>(`count/${work}`)) ?? 0) + 1
  tx.put(`count/${work}`, n)
  tx.put(logKey(work, n), token)
}

export default definePlugin({
  id: 'witness',
  summary: 'Works, and writes down for whom',
  stability: 'experimental',
  capabilities: ['state'],
  setup(svc) {
    const file = process.env.SVC_CLUSTER_FILE as string
    const state = () => svc.storage.state(svc.id)
    for (const work of WORKS)
      svc.own(work, async (claim) => {
        for (let unsure = 0; !claim.signal.aborted; ) {
          const at = Date.now()
          // Looked at behind the clock: a pause between the two is no lie.
          if (claim.remainingMs() > 0) appendFileSync(file, `${work} ${claim.token} ${at}\n`)
          else if (++unsure > 1) appendFileSync(file, `deaf ${work}\n`)
          await state()
            .transaction(async (tx) => {
              await claim.guard(tx)
              await note(tx, work, claim.token)
            })
            .catch((error: Error) => svc.log.debug({ work }, error.message))
          await sleep(PAUSE_MS)
        }
      })
    for (const name of SCHEDULES)
      svc.schedule(name, TURN_MS, async ({ turn, guard }) => {
        await state().transaction(async (tx) => {
          await guard(tx)
          const key = `turn/${name}/${String(turn).padStart(9, '0')}`
          if ((await tx.get(key)) !== undefined) tx.put(`twice/${name}/${turn}`, true)
          tx.put(key, svc.nodes.nodeId)
        })
      })
  },
})

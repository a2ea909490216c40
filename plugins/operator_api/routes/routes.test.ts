/** The interface is a table: these operations and no others, each with its method, path, name, action, success and what else it may answer beside 401, 403 and 500. */
import t from 'tap'
import { httpRoutes } from '../../../test/security/routes.ts'
import { ACTIONS } from '../actions.ts'
import { DOCUMENT, startApi } from '../testing.ts'
import { OPERATIONS } from './index.ts'

const TABLE = [
  'GET /attention attention api:attention 200',
  'GET /drill last_drill api:drill.read 200 404',
  'GET /runs list_runs api:run.list 200 400',
  'GET /runs/live list_live_runs api:run.live 200 400 501',
  'GET /runs/waiting list_waiting_runs api:run.waiting 200',
  'GET /runs/{run} get_run api:run.read 200 400 404',
  'GET /runs/{run}/history run_history api:run.history 200 400 404',
  'POST /runs/{run}/cancel cancel_run api:run.cancel 202 400 404 409 413 415 422',
  'POST /runs/{run}/reopen reopen_run api:run.reopen 200 400 404 409 413 415 422',
  'POST /runs/{run}/abandon abandon_run api:run.abandon 200 400 404 409 413 415 422',
  'POST /runs/{run}/reconcile reconcile_effect api:effect.reconcile 200 400 404 409 413 415 422',
  'GET /tasks list_tasks api:task.list 200 501',
  'GET /tasks/{task} get_task api:task.read 200 400 404 501',
  'POST /tasks/{task}/claim claim_task api:task.claim 200 400 404 409 501',
  'POST /tasks/{task}/release release_task api:task.release 204 400 404 409 501',
  'POST /tasks/{task}/takeover take_over_task api:task.takeover 200 400 404 409 413 415 422 501',
  'POST /tasks/{task}/decide decide_task api:task.decide 200 400 404 409 412 413 415 422 501',
  'GET /cases list_cases api:case.list 200 400 501',
  'GET /cases/{case} get_case api:case.read 200 400 404 501',
  'GET /obligations list_breached_obligations api:obligation.list 200 501',
  'POST /obligations/acknowledge acknowledge_obligation api:obligation.acknowledge 200 400 404 409 413 415 422 501',
  'GET /holds list_holds api:hold.list 200 400 501',
  'POST /holds place_hold api:hold.place 200 400 404 413 415 422 501',
  'POST /holds/release release_hold api:hold.release 200 400 404 413 415 422 501',
  'GET /halts list_halts api:halt.list 200 400 501',
  'POST /halts place_halt api:halt.place 200 400 413 415 422 501',
  'POST /halts/lift lift_halt api:halt.lift 200 400 413 415 422 501',
  'POST /events deliver_event api:event.deliver 200 400 409 413 501 503',
  'GET /dead-letters list_dead_letters api:deadletter.list 200 501',
  'GET /push list_parked_push api:push.list 200 501',
  'POST /push/rearm rearm_push api:push.rearm 200 400 409 413 415 422 501',
].sort()
const GATE = [401, 403, 500]
const line = (method: string, path: string, id: string, action: string, statuses: readonly number[]) => {
  const others = statuses.filter((status) => !GATE.includes(status)).sort((a, b) => a - b)
  return [method.toUpperCase(), path, id, action, ...others].join(' ')
}

t.test('these operations are declared, and no others', async (t) => {
  t.equal(TABLE.length, 31)
  const declared = OPERATIONS.map(({ method, path, operationId, action, status, refusals }) => line(method, path, operationId, action, [status, ...refusals]))
  t.same(declared.sort(), TABLE)
  for (const { operationId, refusals } of OPERATIONS) for (const status of GATE) t.ok(refusals.has(status), `${operationId}: ${status}`)
  const labels = TABLE.map((row) => row.split(' ')[3])
  t.same([...ACTIONS], labels.sort(), 'policies know their actions, and no others; each has one')
})

t.test('the document describes them', async (t) => {
  const described = Object.entries(DOCUMENT.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, one]) =>
      line(method, path, one.operationId, (one as { 'x-svc-action'?: string })['x-svc-action'] ?? '', Object.keys(one.responses).map(Number)),
    ),
  )
  t.same(described.sort(), TABLE)
})

t.test('the listener of the server has their routes, and nothing else beside them', async (t) => {
  const { node } = await startApi(t, [])
  const base = '/api/v1/plane'
  const served = httpRoutes(node.app).filter(({ method, path }) => path.startsWith(`${base}/`) && method !== 'HEAD')
  const routed = served.map(({ method, path }) => `${method} ${path.slice(base.length).replaceAll(/:(\w+)/g, '{$1}')}`)
  t.same(routed.sort(), TABLE.map((row) => row.split(' ').slice(0, 2).join(' ')).sort())
})

/** The parts put together: loaded where the section is. */
import { randomBytes, randomInt } from 'node:crypto'
import { AUDIT_LOG, type AuditLog, audited, type Svc } from 'svcdb'
import type { Json, Operator } from 'svcdb/agents'
import type { AgentPlaneConfig } from './config.ts'
import { Driver } from './drive/driver.ts'
import { planeMetrics } from './metrics.ts'
import * as schemas from './schemas.ts'
import { PlaneService } from './service.ts'
import { runsOf, type Status } from './store/runs.ts'

const COUNTED: readonly Status[] = ['running', 'suspended', 'exhausted', 'failed', 'quarantined']
const MAX_COUNTED = 1000
const MAX_RETIRED = 1000
const CHANCE = 2 ** 32
const PATH = '/api/v1/admin/agents/runs'

export function assemble(svc: Svc, config: AgentPlaneConfig): PlaneService {
  const { clock } = svc
  const runs = new Map<string, number>()
  const held: { driver?: Driver } = {}
  const metrics = planeMetrics(svc.metrics, { driving: () => service.driving, waiting: () => service.waiting, runs: () => runs })
  const service = new PlaneService({ driver: () => held.driver, maxDriving: config.max_driving, clock, log: svc.log, metrics })
  svc.ready(() => {
    held.driver = new Driver({
      state: svc.storage.state(svc.id),
      skills: service.skills,
      holder: randomBytes(12).toString('hex'),
      leaseMs: config.lease_secs * 1000,
      limits: { maxSteps: config.max_steps, maxEffects: config.max_effects },
      now: () => clock.now(),
      random: () => randomInt(CHANCE) / CHANCE,
      sleep: (ms) => new Promise((resolve) => void clock.after(ms, resolve)),
      every: (ms, act) => repeat(svc, ms, act),
      performed: (result) => metrics.effects.inc({ result }),
    })
  })
  svc.schedule('sweep', config.sweep_interval_secs * 1000, async () => {
    const { driver } = held
    if (driver === undefined) return
    for (const run of await driver.due(config.sweep_runs)) {
      metrics.recovered.inc()
      service.launch(run)
    }
    metrics.deadLetters.inc(await driver.retire(config.event_grace_secs * 1000, MAX_RETIRED))
    const state = svc.storage.state(svc.id)
    for (const status of COUNTED) runs.set(status, (await runsOf(state, status, MAX_COUNTED)).length)
  })
  svc.drain(async () => {
    let cancel = (): void => {}
    const late = new Promise<void>((resolve) => {
      cancel = clock.after(config.drain_secs * 1000, resolve)
    })
    await Promise.race([service.close(), late])
    cancel()
  })
  addRoutes(svc, service)
  return service
}

function addRoutes(svc: Svc, service: PlaneService): void {
  const config = { action: 'admin' as const }
  const route = (summary: string, more: object, answer: object) => ({ tags: ['agents'], summary, ...more, response: answer })
  const begin = route('Begins a run of an agent', { body: schemas.begin }, { 202: schemas.begun })
  svc.http.post(PATH, { config, schema: begin }, async (request, reply) => {
    const { capability, input, idempotency_key: idempotencyKey } = request.body as { capability: string; input?: Json; idempotency_key?: string }
    const by = svc.context(request)
    const record = { action: 'plane_run', resource: capability, decision: 'allow' as const, by }
    const asked = { capability, input: input ?? null, actor: by.principal, ...(idempotencyKey === undefined ? {} : { idempotencyKey }) }
    const { run, existing } = await audited(svc.find<AuditLog>(AUDIT_LOG), record, () => service.run(asked))
    const { status } = await service.standing(run)
    return reply.code(202).send({ run, status, existing })
  })
  const show = route('How a run stands, and what it gave', { params: schemas.runPath }, { 200: schemas.standing })
  svc.http.get(`${PATH}/:run`, { config, schema: show }, async (request) => {
    const standing = await service.standing((request.params as { run: string }).run)
    return standing.status === 'succeeded' ? { ...standing, output: (await service.replay(standing.run)).output } : standing
  })
  const operator = (request: Parameters<Svc['context']>[0]): Operator => ({ actor: svc.context(request).principal, basis: 'authenticated' })
  const stop = route('Has a run stop at its next step, and undo what it did', { params: schemas.runPath, body: schemas.reason }, { 202: schemas.cancelled })
  svc.http.post(`${PATH}/:run/cancel`, { config, schema: stop }, async (request, reply) => {
    const { run } = request.params as { run: string }
    const record = { action: 'plane_cancel', resource: run.slice(0, 64), decision: 'allow' as const, by: svc.context(request) }
    const { reason } = request.body as { reason: string }
    const answer = await audited(svc.find<AuditLog>(AUDIT_LOG), record, () => service.cancel(run, operator(request), reason))
    return reply.code(202).send(answer)
  })
}

function repeat({ clock }: Svc, ms: number, act: () => void): () => void {
  let cancel = clock.after(ms, again)
  function again(): void {
    act()
    cancel = clock.after(ms, again)
  }
  return () => cancel()
}

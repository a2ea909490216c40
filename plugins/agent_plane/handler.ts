/** The routes that the operator API has not: what begins runs. Those who administer the server reach them. */
import { AUDIT_LOG, type AuditLog, audited, type Svc } from 'svcdb'
import { type CaseChoice, DEFAULT_TENANT, type Json, type Operator } from 'svcdb/agents'
import type { Planes } from './planes.ts'
import * as schemas from './schemas.ts'

const PATH = '/api/v1/admin/agents/runs'
/** Of the operator API by default: where the verbs of `svc plane` ask. */
const OPERATORS = '/api/v1/plane'

interface Begin {
  capability: string
  input?: Json
  idempotency_key?: string
  case?: CaseChoice
}

export function addRoutes(svc: Svc, planes: Planes): void {
  svc.http.hintBelow(OPERATORS, 'the operator API is that of plugin "operator_api", with a section of its own, below its base_path')
  const config = { action: 'admin' as const }
  const route = (summary: string, more: object, answer: object) => ({ tags: ['agents'], summary, ...more, response: answer })
  const agentsOf = (query: unknown) => planes.named((query as { tenant?: string }).tenant ?? DEFAULT_TENANT).agents
  const { tenantQuery: querystring } = schemas
  const begin = route('Begins a run of an agent', { querystring, body: schemas.begin }, { 202: schemas.begun })
  svc.http.post(PATH, { config, schema: begin }, async (request, reply) => {
    const { capability, input, idempotency_key: idempotencyKey, case: matter } = request.body as Begin
    const service = agentsOf(request.query)
    const by = svc.context(request)
    const record = { action: 'plane_run', resource: capability, decision: 'allow' as const, by }
    const asked = {
      capability,
      input: input ?? null,
      actor: by.principal,
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(matter === undefined ? {} : { case: matter }),
    }
    const { run, existing } = await audited(svc.find<AuditLog>(AUDIT_LOG), record, () => service.run(asked))
    const { status } = await service.standing(run)
    return reply.code(202).send({ run, status, existing })
  })
  const show = route('How a run stands, and what it gave', { querystring, params: schemas.runPath }, { 200: schemas.standing })
  svc.http.get(`${PATH}/:run`, { config, schema: show }, async (request) => {
    const service = agentsOf(request.query)
    const standing = await service.standing((request.params as { run: string }).run)
    return standing.status === 'succeeded' ? { ...standing, output: (await service.replay(standing.run)).output } : standing
  })
  const again = route(
    'Runs a run against its journal without doing anything, or has it go on',
    { querystring, params: schemas.runPath, body: schemas.mode },
    { 200: schemas.replayed },
  )
  svc.http.post(`${PATH}/:run/replay`, { config, schema: again }, async (request) => {
    const { run } = request.params as { run: string }
    const service = agentsOf(request.query)
    const { mode } = request.body as { mode: 'strict' | 'resume' }
    if (mode === 'strict') return { run, ...(await service.replay(run)) }
    const record = { action: 'plane_resume', resource: run.slice(0, 64), decision: 'allow' as const, by: svc.context(request) }
    const status = await audited(svc.find<AuditLog>(AUDIT_LOG), record, () => service.resume(run))
    return { run, status, divergences: [], ...(status === 'succeeded' ? { output: (await service.replay(run)).output } : {}) }
  })
  const operator = (request: Parameters<Svc['context']>[0]): Operator => ({ actor: svc.context(request).principal, basis: 'authenticated' })
  const stop = route(
    'Has a run stop at its next step, and undo what it did',
    { querystring, params: schemas.runPath, body: schemas.reason },
    { 202: schemas.cancelled },
  )
  svc.http.post(`${PATH}/:run/cancel`, { config, schema: stop }, async (request, reply) => {
    const { run } = request.params as { run: string }
    const service = agentsOf(request.query)
    const record = { action: 'plane_cancel', resource: run.slice(0, 64), decision: 'allow' as const, by: svc.context(request) }
    const { reason } = request.body as { reason: string }
    const answer = await audited(svc.find<AuditLog>(AUDIT_LOG), record, () => service.cancel(run, operator(request), reason))
    return reply.code(202).send(answer)
  })
}

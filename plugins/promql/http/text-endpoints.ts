/** /format_query and /parse_query; /rules and /alerts, which have none to give. */

import type { FastifyReply } from 'fastify'
import type { HttpRequest } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { type PromqlConfig, parseLimits } from '../config.ts'
import type { TextArgs } from '../text-job.ts'
import { invalidParameter } from './api-error.ts'
import { JSON_TYPE, type QueryApi } from './query-api.ts'

const JOB = moduleUrl('../text-job.ts', import.meta.url)
const FORMS = ['GET', 'POST'] as const

export function textEndpoints(api: QueryApi, config: PromqlConfig): void {
  const limits = parseLimits(config)
  const run = async (request: HttpRequest, reply: FastifyReply, args: Omit<TextArgs, 'parseLimits'>): Promise<void> => {
    const all: TextArgs = { ...args, parseLimits: limits }
    await api.send(request, reply, JOB, all, { type: JSON_TYPE })
  }
  const query = { methods: FORMS, parameters: ['query'] as const }
  api.serve('/format_query', { summary: 'A query, well laid out', ...query }, (params, request, reply) =>
    run(request, reply, { query: params.get('query'), wanted: 'format' }),
  )
  api.serve('/parse_query', { summary: 'The syntax tree of a query', ...query }, (params, request, reply) =>
    run(request, reply, { query: params.get('query'), wanted: 'tree' }),
  )
  api.serve('/rules', { summary: 'Rules: none are evaluated', methods: ['GET'], parameters: ['type'] }, (params) => {
    const type = params.get('type').toLowerCase()
    if (type !== '' && type !== 'alert' && type !== 'record') throw invalidParameter('type', `not supported value ${JSON.stringify(type)}`)
    return { groups: [] }
  })
  api.serve('/alerts', { summary: 'Alerts: none are raised', methods: ['GET'] }, () => ({ alerts: [] }))
}

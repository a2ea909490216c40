/** The routes, and what the OpenAPI description says of them. */
import type { HttpRoutes } from 'svcdb'
import type { RollupsHandler } from './handler.ts'
import { createBody, listing, listQuery, namePath, nothing, refreshed, refreshQuery, view, viewAnswer, viewQuery } from './schemas.ts'

const PATH = '/api/v1/rollups'
const tags = ['rollups']

export function addRoutes(http: HttpRoutes, handler: RollupsHandler): void {
  const params = namePath
  const json = 'application/json'
  const create = { tags, summary: 'Creates a rollup', body: createBody, response: { 201: view } }
  http.post(PATH, { schema: create, serializerCompiler: asItIs }, async (request, reply) =>
    reply
      .code(201)
      .type(json)
      .send(await handler.create(request)),
  )
  const list = { tags, summary: 'Rollups by name', querystring: listQuery, response: { 200: listing } }
  http.get(PATH, { schema: list, serializerCompiler: asItIs }, async (request, reply) => reply.type(json).send(handler.list(request)))
  const remove = { tags, summary: 'Deletes a rollup; its target stays', params, response: { 204: nothing } }
  http.delete(`${PATH}/:name`, { schema: remove }, async (request, reply) => {
    await handler.delete(request)
    return reply.code(204).send()
  })
  const refresh = { tags, summary: 'Computes a range of buckets again', params, querystring: refreshQuery, response: { 200: refreshed } }
  http.post(`${PATH}/:name/refresh`, { schema: refresh }, (request) => handler.refresh(request))
  const query = { tags, summary: 'Materialised buckets, joined with the raw data behind them', params, querystring: viewQuery, response: { 200: viewAnswer } }
  http.get(`${PATH}/:name/query`, { schema: query, serializerCompiler: asItIs }, (request, reply) => handler.view(request, reply))
}

/** The answer is JSON text already. */
const asItIs = () => (text: unknown) => text as string

/** The routes of derived series, and what the OpenAPI description says of them. */
import type { HttpRoutes } from 'svcdb'
import type { DerivedHandler } from './handler.ts'
import * as schemas from './schemas.ts'

const PATH = '/api/v1/analytics/derived'
const tags = ['analytics']
const json = 'application/json'

export function addDerivedRoutes(http: HttpRoutes, handler: DerivedHandler): void {
  const derive = {
    tags,
    summary: 'Has the result of a statement kept up to date as a measurement',
    body: schemas.createBody,
    response: { 201: schemas.derived },
  }
  http.post(PATH, { schema: derive, serializerCompiler: asItIs }, async (request, reply) =>
    reply
      .type(json)
      .code(201)
      .send(await handler.create(request)),
  )
  const allDerived = { tags, summary: 'Derived series by name', response: { 200: schemas.listing } }
  http.get(PATH, { schema: allDerived, serializerCompiler: asItIs }, (request, reply) => reply.type(json).send(handler.list(request)))
  const underive = { tags, summary: 'Deletes a derived series; its points stay', params: schemas.namePath, response: { 200: schemas.deleted } }
  http.delete(`${PATH}/:name`, { schema: underive }, (request) => handler.delete(request))
}

/** The answer is JSON text already. */
const asItIs = () => (text: unknown) => text as string

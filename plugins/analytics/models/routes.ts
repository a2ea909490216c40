/** The routes of models, and what the OpenAPI description says of them. */
import type { Svc } from 'svcdb'
import type { ModelsHandler } from './handler.ts'
import * as schemas from './schemas.ts'

const ADMIN = '/api/v1/admin/analytics'
const DATA = '/api/v1/analytics'
const tags = ['analytics']

export function addModelRoutes({ http, auth }: Pick<Svc, 'http' | 'auth'>, handler: ModelsHandler): void {
  const admin = { action: 'admin' } as const
  const params = schemas.modelPath
  const json = 'application/json'
  for (const path of ['/models', '/models/:measurement/:name', '/retrain']) auth.scoped(ADMIN + path)
  const create = { tags, summary: 'Trains a model on a series and keeps it', body: schemas.createBody, response: { 201: schemas.model } }
  http.post(`${ADMIN}/models`, { config: admin, schema: create, serializerCompiler: asItIs }, async (request, reply) =>
    reply
      .type(json)
      .code(201)
      .send(await handler.create(request, reply)),
  )
  const list = { tags, summary: 'Models by measurement and name', querystring: schemas.listQuery, response: { 200: schemas.listing } }
  http.get(`${ADMIN}/models`, { config: admin, schema: list, serializerCompiler: asItIs }, (request, reply) => reply.type(json).send(handler.list(request)))
  const get = { tags, summary: 'A model with its versions', params, response: { 200: schemas.model } }
  http.get(`${ADMIN}/models/:measurement/:name`, { config: admin, schema: get, serializerCompiler: asItIs }, async (request, reply) =>
    reply.type(json).send(await handler.get(request)),
  )
  const remove = { tags, summary: 'Deletes a model with all its versions', params, response: { 200: schemas.deleted } }
  http.delete(`${ADMIN}/models/:measurement/:name`, { config: admin, schema: remove }, (request) => handler.delete(request))
  const retrain = {
    ...{ tags, summary: 'Has models of a measurement trained again', body: schemas.retrainBody },
    response: { 200: schemas.retrained, 202: schemas.retrained },
  }
  http.post(`${ADMIN}/retrain`, { config: admin, schema: retrain }, (request, reply) => handler.retrain(request, reply))
  const forecast = {
    tags,
    summary: 'What a model forecasts from the newest sample on',
    params,
    querystring: schemas.forecastQuery,
    response: { 200: schemas.forecast },
  }
  http.get(`${DATA}/models/:measurement/:name/forecast`, { config: { action: 'read' }, schema: forecast, serializerCompiler: asItIs }, async (request, reply) =>
    reply.type(json).send(await handler.forecast(request, reply)),
  )
  const anomalies = { tags, summary: 'Samples of a series that a detector finds unusual', body: schemas.anomaliesBody, response: { 200: schemas.anomalies } }
  http.post(`${DATA}/anomalies`, { config: { action: 'read' }, schema: anomalies, serializerCompiler: asItIs }, async (request, reply) =>
    reply.type(json).send(await handler.anomalies(request, reply)),
  )
}

/** The answer is JSON text already. */
const asItIs = () => (text: unknown) => text as string

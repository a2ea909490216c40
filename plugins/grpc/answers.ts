/** The messages of svc.proto that answer, but for rows. */
import type { DeleteResult, FieldInfo, MeasurementInfo, Refused } from 'svcdb'
import type { Work } from 'svcdb/lib/event-loop'
import { ProtobufWriter } from 'svcdb/lib/protobuf'

const writer = new ProtobufWriter()
const MAX_REFUSED = 16
/** Columns between two looks at the time: a measurement may have tens of thousands. */
const COLUMNS_AT_ONCE = 1024

export const EMPTY: Uint8Array = new Uint8Array(0)

export function writeResponse(written: number): Uint8Array {
  writer.int(1, written)
  return writer.take()
}

/** Of forwarded points. */
export function forwardedResponse({ written, rejected, rejections }: Refused): Uint8Array {
  writer.int(1, written)
  writer.int(2, rejected)
  for (const { position, code, message } of rejections.slice(0, MAX_REFUSED)) {
    const refused = writer.open(3)
    writer.int(1, position)
    writer.string(2, code)
    writer.string(3, message)
    writer.close(refused)
  }
  return writer.take()
}

export function duplicateResponse(): Uint8Array {
  writer.int(4, 1)
  return writer.take()
}

export function streamWriteResponse(total: number, last: number): Uint8Array {
  writer.int(1, total)
  writer.int(2, last)
  return writer.take()
}

export function deleteResponse({ series, segmentsSkipped }: DeleteResult): Uint8Array {
  writer.int(1, series)
  writer.int(2, segmentsSkipped)
  return writer.take()
}

export function serverInfoResponse(version: string, uptimeSecs: number, measurements: number): Uint8Array {
  writer.string(1, version)
  writer.int(2, uptimeSecs)
  writer.int(3, measurements)
  return writer.take()
}

/** SchemaResponse, which is a MeasurementInfo as well. */
export function schemaResponse(measurement: MeasurementInfo): Uint8Array {
  schema(writer, measurement)
  return writer.take()
}

/** Of many it takes several turns: the writer is its own. */
export function* listMeasurementsResponse(measurements: readonly MeasurementInfo[]): Work<Uint8Array> {
  const out = new ProtobufWriter()
  let columns = 0
  for (const measurement of measurements) {
    const mark = out.open(1)
    schema(out, measurement)
    out.close(mark)
    columns += 1 + measurement.tags.length + measurement.fields.length
    if (columns < COLUMNS_AT_ONCE) continue
    columns = 0
    yield
  }
  return out.take()
}

function schema(out: ProtobufWriter, { name, tags, fields }: MeasurementInfo): void {
  out.string(1, name)
  column(out, '_time', 'timestamp', 'timestamp(ns)')
  for (const tag of tags) column(out, tag, 'tag', 'string')
  for (const field of fields) column(out, field.name, 'field', dataType(field))
}

function column(out: ProtobufWriter, name: string, role: string, type: string): void {
  const mark = out.open(2)
  out.string(1, name)
  out.string(2, role)
  out.string(3, type)
  out.close(mark)
}

function dataType({ type, scale }: FieldInfo): string {
  return type === 'decimal' ? `decimal(38, ${scale ?? 0})` : type
}

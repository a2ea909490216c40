/** Which fields of a measurement hold the samples of the metric that has the measurement's name: a convention between protocols and query languages. */

/** Floats, or native histograms: of the type that came first. */
export const VALUE_FIELD = 'value'
/** Samples of the other type, where a protocol was told to keep both under one name, and staleness markers before there is a type. */
export const FLOATS_BESIDE = 'value:float'
export const HISTOGRAMS_BESIDE = 'value:histogram'

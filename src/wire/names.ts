// Checks whether a text can be in a compressed text without breaking it (X16).

const BREAKS = /[.|;>:@\u0000-\u001f\u007f]|^[&#]/
const SURROGATE = /\p{Cs}/u

/** True for a device id, state or sensor id that can be sent. */
export const isGoodName = (text: unknown): text is string =>
  typeof text === 'string' && text !== '' && !BREAKS.test(text) && !SURROGATE.test(text)

/** True for a sensor status that can be sent: no dot, and no character that ends its slot or its segment. */
export const isGoodStatus = (text: unknown): text is string =>
  typeof text === 'string' && !/[.|@\u0000-\u001f\u007f]/.test(text) && !SURROGATE.test(text)

/* The few names that OpenSSL 3.5 has for a QUIC library and older headers lack: part of its stable interface. So any
 * OpenSSL 3 headers, such as Node's, are enough to compile; a missing function is detected when the file is loaded. */
#include <openssl/core_dispatch.h>
#include <openssl/ssl.h>

#ifndef OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_SEND
#define OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_SEND 2001
#define OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_RECV_RCD 2002
#define OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_RELEASE_RCD 2003
#define OSSL_FUNC_SSL_QUIC_TLS_YIELD_SECRET 2004
#define OSSL_FUNC_SSL_QUIC_TLS_GOT_TRANSPORT_PARAMS 2005
#define OSSL_FUNC_SSL_QUIC_TLS_ALERT 2006
#define OSSL_RECORD_PROTECTION_LEVEL_NONE 0
#define OSSL_RECORD_PROTECTION_LEVEL_EARLY 1
#define OSSL_RECORD_PROTECTION_LEVEL_HANDSHAKE 2
#define OSSL_RECORD_PROTECTION_LEVEL_APPLICATION 3
#ifndef OSSL_DISPATCH_END
#define OSSL_DISPATCH_END {0, NULL}
#endif
int SSL_set_quic_tls_cbs(SSL *ssl, const OSSL_DISPATCH *callbacks, void *argument);
int SSL_set_quic_tls_transport_params(SSL *ssl, const unsigned char *params, size_t length);
#endif

/* Certificates and TLS 1.3 from Node's OpenSSL. */
#include "quic.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

/* `argument`: JavaScript checks the chain later, because it has a more reliable time than this clock. */
static int verify(X509_STORE_CTX *context, void *argument) {
    int good = X509_verify_cert(context);
    if (argument) {
        X509_STORE_CTX_set_error(context, X509_V_OK);
        return 1;
    }
    /* only an expired certificate has a separate alert */
    if (X509_STORE_CTX_get_error(context) == X509_V_ERR_CERT_NOT_YET_VALID)
        X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_HAS_EXPIRED);
    return good > 0;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in,
                           unsigned int in_length, void *argument) {
    const ngtcp2_crypto_conn_ref *ref = SSL_get_app_data(ssl);
    const struct quic_config *config = &((struct quic *)ref->user_data)->config;
    if (SSL_select_next_proto((unsigned char **)out, length, config->protos, (unsigned)config->protos_length, in,
                              in_length) == OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_OK;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int tls_context(struct quic_config *config, bool check, bool judged_elsewhere) {
    SSL_CTX *tls = SSL_CTX_new(TLS_method());
    if (!tls)
        return -1;
    config->tls = tls;
    config->verify = check && !judged_elsewhere;
    SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
    SSL_CTX_set_num_tickets(tls, 0);
    /* with an ML-KEM share the first flight would not fit into one datagram */
    SSL_CTX_set1_groups_list(tls, "X25519:P-256:P-384");
    SSL_CTX_set_verify(tls, check ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_cert_verify_callback(tls, verify, judged_elsewhere ? tls : NULL);
    SSL_CTX_set_alpn_select_cb(tls, choose_protocol, NULL);
    return 0;
}

/* The next certificate of a PEM text; NULL at its end, or if it is invalid (then OpenSSL has an error). */
static X509 *next_certificate(BIO *text) {
    X509 *one = PEM_read_bio_X509_AUX(text, NULL, NULL, "");
    if (!one && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
        ERR_clear_error();
    return one;
}

static int each_certificate(SSL_CTX *tls, const uint8_t *pem, size_t length, int (*take)(SSL_CTX *, X509 *, int)) {
    BIO *text = BIO_new_mem_buf(pem, (int)length);
    int count = 0;
    ERR_clear_error();
    for (X509 *one; text && (one = next_certificate(text)); count++) {
        int taken = take(tls, one, count);
        X509_free(one);
        if (taken != 1)
            count = -2;
        if (count < 0)
            break;
    }
    BIO_free(text);
    return count > 0 && ERR_peek_error() == 0 ? 0 : -1;
}

static int into_store(SSL_CTX *tls, X509 *one, int place) {
    return X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), one);
}

static int into_chain(SSL_CTX *tls, X509 *one, int place) {
    return place == 0 ? SSL_CTX_use_certificate(tls, one) : (int)SSL_CTX_add1_chain_cert(tls, one);
}

int tls_trust(SSL_CTX *tls, const uint8_t *pem, size_t length) {
    return each_certificate(tls, pem, length, into_store);
}

int tls_chain(SSL_CTX *tls, const uint8_t *pem, size_t length) {
    return each_certificate(tls, pem, length, into_chain);
}

int tls_key(SSL_CTX *tls, const uint8_t *pem, size_t length) {
    BIO *text = BIO_new_mem_buf(pem, (int)length);
    /* without a passphrase, which must not be prompted for at the terminal */
    EVP_PKEY *key = text ? PEM_read_bio_PrivateKey(text, NULL, NULL, "") : NULL;
    int taken = key ? SSL_CTX_use_PrivateKey(tls, key) : 0;
    EVP_PKEY_free(key);
    BIO_free(text);
    return taken == 1 ? 0 : -1;
}

static ngtcp2_conn *conn_of(ngtcp2_crypto_conn_ref *ref) {
    return ((struct quic *)ref->user_data)->conn;
}

int tls_session(struct quic *quic, const char *name) {
    SSL *ssl = quic->ssl = SSL_new(quic->config.tls);
    if (!ssl)
        return -1;
    quic->ref = (ngtcp2_crypto_conn_ref){.get_conn = conn_of, .user_data = quic};
    SSL_set_app_data(ssl, &quic->ref);
    if (ngtcp2_crypto_ossl_ctx_new(&quic->tls, ssl) != 0)
        return -1;
    if (quic->server) {
        SSL_set_accept_state(ssl);
        return ngtcp2_crypto_ossl_configure_server_session(ssl);
    }
    SSL_set_connect_state(ssl);
    if (name && SSL_set_tlsext_host_name(ssl, name) != 1)
        return -1;
    if (name && quic->config.verify && SSL_set1_host(ssl, name) != 1)
        return -1;
    if (SSL_set_alpn_protos(ssl, quic->config.protos, (unsigned)quic->config.protos_length) != 0)
        return -1;
    return ngtcp2_crypto_ossl_configure_client_session(ssl);
}

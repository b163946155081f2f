package convert

import (
	"slices"
	"strings"
)

// saidOf is what is said of a directive that is not carried over.
type saidOf struct {
	level level
	text  string
}

// known has what is said of directives that have no key of their own here.
var known = verdicts()

func verdicts() map[string]saidOf {
	known := map[string]saidOf{}
	for why, names := range map[string]string{
		"the server chooses that": `
			worker_processes worker_connections worker_cpu_affinity worker_priority
			worker_rlimit_core worker_shutdown_timeout events use multi_accept accept_mutex
			accept_mutex_delay daemon master_process pcre_jit thread_pool timer_resolution
			lock_file debug_connection sendfile sendfile_max_chunk tcp_nopush tcp_nodelay aio
			aio_write directio directio_alignment read_ahead output_buffers postpone_output
			types_hash_max_size types_hash_bucket_size server_names_hash_max_size
			server_names_hash_bucket_size map_hash_max_size map_hash_bucket_size
			variables_hash_max_size variables_hash_bucket_size proxy_headers_hash_max_size
			proxy_headers_hash_bucket_size connection_pool_size request_pool_size
			client_header_buffer_size client_body_buffer_size client_body_temp_path
			client_body_in_file_only client_body_in_single_buffer open_file_cache
			open_file_cache_valid open_file_cache_min_uses open_file_cache_errors
			reset_timedout_connection lingering_close lingering_time lingering_timeout
			keepalive_requests keepalive_time keepalive_disable preread_buffer_size
			proxy_buffer_size proxy_buffers proxy_busy_buffers_size proxy_temp_path
			proxy_max_temp_file_size proxy_temp_file_write_size fastcgi_buffer_size
			fastcgi_buffers fastcgi_busy_buffers_size fastcgi_temp_path fastcgi_max_temp_file_size
			fastcgi_temp_file_write_size uwsgi_buffers uwsgi_busy_buffers_size uwsgi_temp_path
			uwsgi_max_temp_file_size scgi_buffers scgi_buffer_size scgi_busy_buffers_size
			scgi_temp_path grpc_buffer_size proxy_socket_keepalive fastcgi_socket_keepalive
			subrequest_output_buffer_size http2_max_field_size http2_max_header_size
			http2_max_requests http2_recv_timeout http2_recv_buffer_size http2_chunk_size
			http2_body_preread_size http2_idle_timeout http2_push http2_push_preload
			ignore_invalid_headers client_max_header_size tcp_nodelay max_ranges`,
		"the server says its name only if [headers] does": `
			server_tokens more_clear_headers`,
		"a list has sizes and dates": `autoindex_exact_size autoindex_localtime`,
		"the server knows the common types": `
			default_type types charset charset_types override_charset source_charset`,
		"what is compressed, and how, has good defaults; see compression": `
			gzip gzip_types gzip_comp_level gzip_min_length gzip_vary gzip_proxied gzip_disable
			gzip_buffers gzip_http_version gzip_static brotli brotli_types brotli_comp_level
			brotli_static brotli_min_length zstd zstd_types zstd_comp_level zstd_static`,
		"Go's crypto/tls chooses; versions are 1.2 and 1.3": `
			ssl ssl_ciphers ssl_prefer_server_ciphers ssl_session_cache ssl_session_timeout
			ssl_session_tickets ssl_session_ticket_key ssl_dhparam ssl_ecdh_curve ssl_buffer_size
			ssl_conf_command ssl_early_data ssl_protocols ssl_verify_depth ssl_trusted_certificate
			proxy_ssl_protocols proxy_ssl_ciphers proxy_ssl_session_reuse proxy_ssl_server_name
			proxy_ssl_verify_depth proxy_ssl_verify http2`,
		"messages of the server go to stderr": `
			error_log log_subrequest open_log_file_cache rewrite_log uninitialized_variable_warn`,
		"a file that is not there has no line there": `
			log_not_found`,
		"addresses in redirects are those that the client has asked for": `
			absolute_redirect port_in_redirect server_name_in_redirect msie_padding msie_refresh
			proxy_redirect`,
		"names are looked up by the system's resolver, and again when their time is over": `
			resolver resolver_timeout`,
		"upstreams are asked by HTTP/1.1, and connections are kept": `
			proxy_http_version keepalive`,
		"entity tags and conditions are there": `
			etag if_modified_since chunked_transfer_encoding`,
		"symbolic links out of the folder are not followed": `
			disable_symlinks`,
		"paths are compared with single slashes": `
			merge_slashes`,
		"the status is 429": `
			limit_req_status limit_conn_status limit_req_log_level limit_conn_log_level
			limit_req_dry_run`,
		"the first address that no trusted proxy has is the client's": `
			real_ip_recursive`,
		"the client's fields go on, with its body": `
			proxy_pass_request_headers proxy_pass_request_body`,
		"a name is a part of the map": `
			hostnames volatile`,
		"the server reads it": `
			include`,
		"expressions end nothing here": `
			break`,
		"all kept answers of a path are dropped by PURGE, see purge_from": `
			proxy_cache_purge fastcgi_cache_purge`,
		"the cache takes GET and HEAD": `
			proxy_cache_methods fastcgi_cache_methods proxy_cache_convert_head`,
		"a name for the process": `
			server_name`,
		"the client gets it": `
			proxy_pass_header fastcgi_pass_header`,
		"a lost answer is asked for again": `
			proxy_cache_lock_timeout proxy_cache_lock_age fastcgi_cache_lock_timeout
			fastcgi_cache_lock_age`,
		"named modules are compiled in": `
			load_module`,
		"nothing": `
			env`,
	} {
		for _, name := range strings.Fields(names) {
			known[name] = saidOf{byItself, why}
		}
	}
	known["include"] = saidOf{left, "there is no such file"}
	known["env"] = saidOf{byItself, "the environment is passed on to nobody"}
	known["worker_rlimit_nofile"] = saidOf{byItself, "the server takes the hard limit of open files"}
	for why, names := range map[string]string{
		"answers are not stapled with OCSP; most authorities have ended it": `
			ssl_stapling ssl_stapling_verify ssl_stapling_file ssl_stapling_responder ssl_ocsp
			ssl_ocsp_cache`,
		"keys with a password are not read": `
			ssl_password_file`,
		"texts of answers are not replaced": `
			sub_filter sub_filter_once sub_filter_types sub_filter_last_modified`,
		"server-side includes are not there": `
			ssi ssi_types`,
		"WebDAV is not there": `
			dav_methods dav_ext_methods dav_access create_full_put_path min_delete_depth`,
		"videos are sent as files, with ranges": `
			mp4 flv mp4_buffer_size mp4_max_buffer_size`,
		"there are no such links; an application asks by auth": `
			secure_link secure_link_md5 secure_link_secret`,
		"files of MaxMind are not read; networks stand in a [[map]]": `
			geoip_country geoip_city geoip2 geoip_proxy`,
		"images are not changed": `
			image_filter image_filter_buffer image_filter_jpeg_quality`,
		"mail is passed on as a [[stream]], without its own log-in": `
			mail`,
		"there is no other language": `
			perl perl_modules js_include js_import js_content js_set`,
		"write the texts into the page": `
			add_before_body add_after_body addition_types`,
		"the cache keeps whole answers": `
			slice`,
		"compressed answers go on as they come": `
			gunzip`,
		"the bytes at the beginning go as fast as others": `
			limit_rate_after`,
		"a method is a condition of a rule, or methods of limit": `
			limit_except`,
		"an answer is not stored as a file; see cache": `
			proxy_store proxy_store_access fastcgi_store`,
		"the method and the body are the client's": `
			proxy_method proxy_set_body`,
		"fields of the upstream that forbid keeping count": `
			proxy_ignore_headers fastcgi_ignore_headers`,
		"cookies keep their flags": `
			proxy_cookie_flags userid userid_name userid_domain userid_path userid_expires`,
		"requests are copied to a route, see mirror": `
			mirror mirror_request_body`,
		"the bytes of an upstream come as fast as it sends them": `
			proxy_limit_rate`,
		"memcached is not spoken": `
			memcached_pass`,
		"the module proxy has checks, see health": `
			health_check match`,
		"there is no firewall for applications": `
			modsecurity modsecurity_rules_file`,
		"conditions by an earlier answer are rules with `answer`": `
			recursive_error_pages`,
		"a directory index is drawn by the server": `
			autoindex_format fancyindex fancyindex_exact_size`,
		"one of the index files is not taken by chance": `
			random_index`,
		"trailers are the application's": `
			add_trailer`,
		"a variable of the program": `
			set_by_lua`,
	} {
		for _, name := range strings.Fields(names) {
			known[name] = saidOf{left, why}
		}
	}
	return known
}

// asked are directives that the converter asks for where they matter. Elsewhere they have no
// effect.
var asked = strings.Fields(`root alias index try_files location server_name listen set expires
	add_header add_trailer allow deny satisfy auth_basic auth_basic_user_file auth_request
	auth_request_set limit_req limit_conn limit_rate limit_req_zone limit_conn_zone error_page
	access_log log_format keepalive_timeout client_header_timeout client_body_timeout send_timeout
	client_max_body_size large_client_header_buffers internal underscores_in_headers ssl_certificate
	ssl_certificate_key ssl_client_certificate ssl_verify_client ssl_crl ssl_reject_handshake
	set_real_ip_from real_ip_header more_set_headers autoindex return rewrite if user pid http
	http2 proxy_timeout ssl_preread proxy_protocol proxy_ssl upstream map geo split_clients`)

// inherited reports whether a directive holds for something further in that nothing has asked for.
func inherited(name string) bool {
	if slices.Contains(asked, name) {
		return true
	}
	for _, family := range []string{"proxy_", "fastcgi_", "uwsgi_", "scgi_", "grpc_"} {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return false
}

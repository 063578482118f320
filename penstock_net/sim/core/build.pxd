from penstock_net.fabric.rows cimport NodeCounters, PortCounters, node_counters_at, port_counters_at
from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport flow_bytes, incoming_bytes, new_flows, new_int64, new_masks, new_nodes, new_outboxes
from penstock_net.fabric.tables cimport new_rankings, new_workers, new_world, node_bytes, packet_bytes, port_bytes, queue_bytes
from penstock_net.fabric.tables cimport rank_bytes
from penstock_net.sim.core.flow_setter cimport set_flow_result
from penstock_net.fabric.queueing_inline cimport set_event
from penstock_net.fabric.sampling cimport catch_up, start_sampling
from penstock_net.sim.core.agenda cimport forget_end, new_agenda, next_time, set_time
from penstock_net.sim.core.moves cimport move_flows
from penstock_net.sim.core.nodes cimport active_flows_of, begin_acks, clear_queues, count_node, count_port, counts_of, empty_switch, flow_counts_of, flow_samples_of, go_on, guide, link, new_nic, new_node
from penstock_net.sim.core.nodes cimport own_scheduling, plant, queueing_of, record_fields, restart_maxima_of, set_loss, set_rate, set_state, stopped_queues_of, totals_of, watch_hosts
from penstock_net.sim.core.retries cimport act_on_retry
from penstock_net.sim.core.pointers cimport add_counting, add_hook, add_ranking
from penstock_net.sim.core.pointers cimport call_set_up, call_set_up_node, call_set_up_port, clear_area, fault_of, fields_of, flow_results, free_world, hook_of
from penstock_net.sim.core.pointers cimport int8_table, int16_table, int32_table, int64_table, log_bytes, me_at, me_of, new_me, node_area
from penstock_net.sim.core.pointers cimport node_counter_table, port_area, port_counter_table, put_own_table, put_table, rows_of
from penstock_net.sim.core.pointers cimport connection_table, message_table
from penstock_net.sim.core.pointers cimport run_released, set_fabric_hooks, set_parameter, set_places, start_table
from penstock_net.sim.core.lifetimes cimport set_start_timer

cdef class Simulation:
    cdef World* world
    cdef object kept, kept_starts, kept_routes, installed
